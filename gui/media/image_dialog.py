"""The dialog that shows one image of a run in its full size."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QImage,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
    QWheelEvent,
)
from PySide6.QtWidgets import QDialog, QPushButton, QSizePolicy, QWidget

from engine.messages.events import ImageLogged
from gui.bridge.files.media_files import MediaFiles
from gui.media.cards import ImageCard, StepSlider
from gui.media.picture_grid import SHARP_FROM
from gui.style.theme import theme_of
from gui.widgets.boxes import column_of, row_of
from gui.widgets.plain_text import Label

_STEP = 1.25
_MOST = 64.0
_SIZE = QSize(760, 620)


class ImageView(QWidget):
    """Paints an image; the wheel, + and − enlarge it, the mouse and the arrow keys move it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._image = QImage()
        self._scale = 0.0
        """Screen pixels per pixel of the image; 0: as large as fits."""

        self._middle = QPointF()
        self._pressed: QPointF | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def scale(self) -> float:
        """Screen pixels per pixel of the image."""
        return self._scale or self._fitting()

    @property
    def image(self) -> QImage:
        """The shown image; null: there is none."""
        return self._image

    def show_image(self, image: QImage) -> None:
        """Show `image`, with the same enlargement if it has the size of the one before."""
        if image.size() != self._image.size():
            self.fit()
        self._image = image
        self.update()

    def fit(self) -> None:
        """Show the whole image."""
        self._scale, self._middle = 0.0, QPointF()
        self.update()

    def set_scale(self, scale: float) -> None:
        """Set the number of screen pixels per pixel."""
        self._scale = min(max(scale, min(0.05, self._fitting())), _MOST)
        self._keep_inside()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enlarge, fit, or move."""
        distance = 40 / max(self.scale, 0.01)
        moves = {
            Qt.Key.Key_Left: QPointF(-distance, 0),
            Qt.Key.Key_Right: QPointF(distance, 0),
            Qt.Key.Key_Up: QPointF(0, -distance),
            Qt.Key.Key_Down: QPointF(0, distance),
        }
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.set_scale(self.scale * _STEP)
        elif key == Qt.Key.Key_Minus:
            self.set_scale(self.scale / _STEP)
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key == Qt.Key.Key_1:
            self.set_scale(1.0)
        elif key in moves:
            self._middle += moves[key]
            self._keep_inside()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Enlarge around the mouse."""
        before = self._at(event.position())
        self.set_scale(self.scale * _STEP ** (event.angleDelta().y() / 120))
        self._middle += before - self._at(event.position())
        self._keep_inside()
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin to move the image."""
        self._pressed = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the image."""
        if self._pressed is not None:
            self._middle -= (event.position() - self._pressed) / self.scale
            self._pressed = event.position()
            self._keep_inside()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Leave the image where it is."""
        self._pressed = None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._keep_inside()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the part of the image that is in sight."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme_of(self.palette()).card2))
        if self._image.isNull():
            return
        scale = self.scale
        size = QPointF(self._image.width(), self._image.height()) * scale
        corner = QRectF(self.rect()).center() - self._middle * scale - size / 2
        smooth = scale < SHARP_FROM
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, smooth)
        painter.drawImage(QRectF(corner, corner + size), self._image)

    def _fitting(self) -> float:
        if self._image.isNull():
            return 1.0
        fits = min(self.width() / self._image.width(), self.height() / self._image.height())
        return min(fits, _MOST)

    def _at(self, point: QPointF) -> QPointF:
        """Return the point of the image, from its middle, at this point of the widget."""
        return self._middle + (point - QRectF(self.rect()).center()) / self.scale

    def _keep_inside(self) -> None:
        """Keep a part of the image in the middle."""
        half = QPointF(self._image.width() / 2, self._image.height() / 2)
        x = min(max(self._middle.x(), -half.x()), half.x())
        y = min(max(self._middle.y(), -half.y()), half.y())
        self._middle = QPointF(x, y)
        self.update()


class ImageDialog(QDialog):
    """One image of a card: enlarged, moved, copied, and the same one at other steps."""

    def __init__(
        self, files: MediaFiles, card: ImageCard, place: int, parent: QWidget | None = None
    ) -> None:
        """`place`: index of the image at the step of `card`, to which the slider is joined."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(card.name)
        self.resize(_SIZE)
        self._files, self._card, self._place = files, card, place
        self.view = ImageView()
        self.note = Label(objectName="note", wordWrap=True)
        self.slider = StepSlider()
        self.slider.setAccessibleName(card.slider.accessibleName())
        self._steps: list[int] = list(card.steps)
        self.slider.setRange(0, max(0, len(self._steps) - 1))
        self.slider.setValue(card.slider.value())
        self.slider.setEnabled(len(self._steps) > 1)
        self.slider.valueChanged.connect(lambda _: self._show())
        self.previous = QPushButton("Previous")
        self.next = QPushButton("Next")
        self.previous.setToolTip("The image before, at this step (Page Up)")
        self.next.setToolTip("The image after, at this step (Page Down)")
        fit = QPushButton("Fit")
        fit.setToolTip("Show the whole image (0)")
        full = QPushButton("100 %")
        full.setToolTip("One pixel of the image is one of the screen (1)")
        copy = QPushButton("Copy")
        copy.setToolTip("Copy the image (Ctrl+C)")
        self.previous.clicked.connect(lambda: self._go(-1))
        self.next.clicked.connect(lambda: self._go(1))
        fit.clicked.connect(self.view.fit)
        full.clicked.connect(lambda: self.view.set_scale(1.0))
        copy.clicked.connect(self._copy)
        shortcuts = (
            (QKeySequence.StandardKey.Copy, self._copy),
            (Qt.Key.Key_PageUp, lambda: self._go(-1)),
            (Qt.Key.Key_PageDown, lambda: self._go(1)),
        )
        for keys, call in shortcuts:
            QShortcut(QKeySequence(keys), self, call)
        row = row_of((self.slider, 1))
        for button in (self.previous, self.next, fit, full, copy):
            button.setObjectName("small")
            button.setAutoDefault(False)
            row.addWidget(button)
        column_of((self.view, 1), self.note, row, parent=self)
        self._file = self._text = ""
        files.full.connect(self._show_image)
        self.view.setFocus()
        self._show()

    def _images(self) -> list[ImageLogged]:
        """Return the images at the chosen step, which the run may have left since."""
        steps = self._card.series.steps
        step = self._steps[self.slider.value()] if self._steps else -1
        return self._card.series.at(steps.index(step)) if step in steps else []

    def _go(self, places: int) -> None:
        self._place = min(max(self._place + places, 0), len(self._images()) - 1)
        self._show()

    def _show(self) -> None:
        images = self._images()
        self._place = min(self._place, max(0, len(images) - 1))
        self.previous.setEnabled(self._place > 0)
        self.next.setEnabled(self._place < len(images) - 1)
        if not images:
            self.note.setText("This image is not kept any more.")
            return
        shown = images[self._place]
        parts = [f"step {shown.step:,}"]
        if len(images) > 1:
            parts.append(f"{self._place + 1} of {len(images)}")
        parts.append(f"{shown.width:,} × {shown.height:,} pixels")
        self._text = "\n".join(filter(None, (" · ".join(parts), shown.caption)))
        self.note.setText(self._text)
        self.view.setAccessibleName(self._text)
        self._file = shown.file
        self._files.want_full(shown.file)

    def _show_image(self, file: str, image: QImage | str) -> None:
        if file != self._file:
            return
        self.view.show_image(image if isinstance(image, QImage) else QImage())
        if isinstance(image, str):
            self.note.setText(f"{self._text}\n⚠ {image}")

    def _copy(self) -> None:
        if not self.view.image.isNull():
            QGuiApplication.clipboard().setImage(self.view.image)
