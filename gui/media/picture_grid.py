"""Shows the images of one step side by side; one of them is chosen by keys or by the mouse."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from engine.messages.events import ImageLogged
from gui.style.theme import theme_of
from gui.widgets.plain_text import wrapped

_GAP = 3
SHARP_FROM = 2.0
"""From this enlargement on, pixels are drawn as squares."""


class PictureGrid(QWidget):
    """Up to some dozens of images; Enter, Space or a double click opens the chosen one."""

    opened = Signal(int)
    """Index of the image that should be shown in its full size."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._images: list[ImageLogged] = []
        self._previews: dict[str, QImage | str] = {}
        self.current = 0
        """Index of the chosen image."""

        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def sizeHint(self) -> QSize:
        """A card's width."""
        return QSize(200, 130)

    def show_images(self, images: list[ImageLogged]) -> None:
        """Show `images`, whose previews follow."""
        self._images = images
        self._previews = {
            each.file: self._previews[each.file] for each in images if each.file in self._previews
        }
        self.current = min(self.current, max(0, len(images) - 1))
        self._describe()
        self.update()

    def missing(self) -> list[str]:
        """Return the files whose previews are not here yet."""
        return [each.file for each in self._images if each.file not in self._previews]

    def set_preview(self, file: str, preview: QImage | str) -> None:
        """Show the preview of `file`, or why there is none, if it is one of the images."""
        if any(each.file == file for each in self._images):
            self._previews[file] = preview
            self.update()

    def forget_previews(self) -> None:
        """Free the memory of the previews: the images are out of sight."""
        self._previews.clear()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Choose by the arrow keys, open by Enter or Space."""
        columns = self._columns()
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: -columns,
            Qt.Key.Key_Down: columns,
        }
        key = Qt.Key(event.key())
        if key in steps and 0 <= self.current + steps[key] < len(self._images):
            self._choose(self.current + steps[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self._images:
            self.opened.emit(self.current)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the image under the mouse."""
        place = self._place_at(event.position().toPoint())
        if place is not None:
            self._choose(place)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Open the image under the mouse."""
        place = self._place_at(event.position().toPoint())
        if place is not None and event.button() == Qt.MouseButton.LeftButton:
            self.opened.emit(place)

    def event(self, event: QEvent) -> bool:
        """Show caption and size of the image under the mouse."""
        if isinstance(event, QHelpEvent):
            place = self._place_at(event.pos())
            tip = self._tip(self._images[place]) if place is not None else ""
            QToolTip.showText(event.globalPos(), wrapped(tip), self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the images in a grid that fills the room."""
        theme = theme_of(self.palette())
        painter = QPainter(self)
        for place, image in enumerate(self._images):
            cell = self._cell(place)
            preview = self._previews.get(image.file)
            if isinstance(preview, QImage):
                drawn = _fitted(preview.size(), cell)
                smooth = drawn.width() < SHARP_FROM * preview.width()
                painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, smooth)
                painter.drawImage(drawn, preview)
            else:
                painter.setPen(QColor(theme.bad if preview else theme.muted))
                painter.fillRect(cell, QColor(theme.card2))
                text = "⚠" if preview else "…"
                painter.drawText(cell, Qt.AlignmentFlag.AlignCenter, text)
            if self.hasFocus() and place == self.current:
                painter.setPen(QPen(QColor(theme.accent), 2))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(cell.adjusted(1, 1, -1, -1))

    def _tip(self, image: ImageLogged) -> str:
        problem = self._previews.get(image.file)
        size = f"{image.width:,} × {image.height:,} pixels"
        return "\n".join(
            filter(None, (image.caption, size, problem if isinstance(problem, str) else ""))
        )

    def _choose(self, place: int) -> None:
        self.current = place
        self._describe()
        self.update()

    def _describe(self) -> None:
        """Tell a screen reader what is shown."""
        if not self._images:
            self.setAccessibleName("No image")
            return
        image = self._images[self.current]
        text = (
            f"Image {self.current + 1} of {len(self._images)} at step {image.step:,}: "
            f"{image.caption} {image.width} × {image.height}"
        )
        self.setAccessibleName(
            text
        )  # fmt: skip

    def _columns(self) -> int:
        """Return the number of columns with which the images become largest."""
        count = len(self._images)
        if count < 2:
            return 1
        shape = sum(each.width / max(1, each.height) for each in self._images) / count or 1.0

        def edge(columns: int) -> float:
            rows = math.ceil(count / columns)
            return min(self.width() / columns / shape, self.height() / rows)

        return max(range(1, count + 1), key=edge)

    def _cell(self, place: int) -> QRect:
        columns = self._columns()
        rows = max(1, math.ceil(len(self._images) / columns))
        row, column = divmod(place, columns)
        width, height = self.width() / columns, self.height() / rows
        left, top = round(column * width), round(row * height)
        right, bottom = round((column + 1) * width), round((row + 1) * height)
        return QRect(left, top, right - left - _GAP, bottom - top - _GAP)

    def _place_at(self, point: QPoint) -> int | None:
        return next((k for k in range(len(self._images)) if self._cell(k).contains(point)), None)


def _fitted(size: QSize, cell: QRect) -> QRect:
    """Return where an image of this size is drawn, in the middle of `cell`."""
    scaled = size.scaled(cell.size(), Qt.AspectRatioMode.KeepAspectRatio)
    scaled = scaled.expandedTo(QSize(1, 1))
    drawn = QRect(QPoint(), scaled)
    drawn.moveCenter(cell.center())
    return drawn
