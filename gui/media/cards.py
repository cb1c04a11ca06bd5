"""The cards of the tab Media: one series each, with a slider over its steps."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QSlider, QWidget

from engine.messages.events import ImageLogged
from gui.media.picture_grid import PictureGrid
from gui.media.ridge import Ridge
from gui.media.series import HistogramSeries, ImageSeries
from gui.widgets.boxes import column_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import plain_tip, set_wrapped_tip

HEIGHT = 208
"""Logical pixels of a card."""


class MediaCard(QFrame):
    """A title, a view, and a slider that follows the newest step while it is there."""

    def __init__(self, name: str, view: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.name = name
        self._count = 0
        self.title = ElidedLabel(objectName="ttl")
        self.title.setText(name)
        self.title.setToolTip(plain_tip(name))
        self.slider = StepSlider()
        self.slider.setAccessibleName(f"Step of {name}")
        self.note = ElidedLabel(objectName="note")
        self.slider.valueChanged.connect(self._show_place)
        column_of(
            self.title,
            (view, 1),
            self.slider,
            self.note,
            parent=self,
            margins=(9, 5, 9, 5),
            spacing=3,
        )
        self.setFixedHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    @property
    def steps(self) -> list[int]:
        """The steps of the series, in ascending order."""
        raise NotImplementedError

    def update_series(self) -> None:
        """Show what the series has now; the slider stays at its step, or at the newest one."""
        steps, place = self.steps, self.slider.value()
        follows = place >= self._count - 1
        self._count = len(steps)
        last = max(0, self._count - 1)
        self.slider.blockSignals(True)
        self.slider.setRange(0, last)
        self.slider.setValue(last if follows else min(place, last))
        self.slider.blockSignals(False)
        self.slider.setEnabled(last > 0)
        self._show_place()

    def set_visible_part(self, is_visible: bool) -> None:
        """Tell the card whether it is in sight: only then it needs its images."""

    def describe(self, place: int) -> str:
        """Return what is shown at this index of `steps`, beside the step."""
        raise NotImplementedError

    def _show_place(self) -> None:
        place, steps = self.slider.value(), self.steps
        if not steps:
            self.note.setText("left out: the run went back")
            return
        text = f"step {steps[place]:,}"
        if len(steps) > 1:
            text += f" · {place + 1} of {len(steps)}"
        if more := self.describe(place):
            text += " · " + more
        self.note.setText(text)
        set_wrapped_tip(self.note, text)
        self.slider.setAccessibleDescription(text)


class ImageCard(MediaCard):
    """The images of a series at one step."""

    previews_wanted = Signal()
    """Other images are shown, whose previews are not here yet."""

    opened = Signal(object, int)
    """This card, and the index of the image that should be shown in its full size."""

    def __init__(self, series: ImageSeries, parent: QWidget | None = None) -> None:
        self.series = series
        self.grid = PictureGrid()
        super().__init__(series.name, self.grid, parent)
        self.grid.opened.connect(lambda place: self.opened.emit(self, place))
        self._is_visible = False
        self.update_series()

    @property
    def steps(self) -> list[int]:
        return self.series.steps

    def images(self) -> list[ImageLogged]:
        """Return the images at the chosen step."""
        return self.series.at(self.slider.value()) if self.steps else []

    def wanted(self) -> list[str]:
        """Return the files whose previews the card needs; none while it is out of sight."""
        return self.grid.missing() if self._is_visible else []

    def set_preview(self, file: str, preview: QImage | str) -> None:
        """Show the preview of `file`, or why there is none, if it is one of the images."""
        if self._is_visible:
            self.grid.set_preview(file, preview)

    def set_visible_part(self, is_visible: bool) -> None:
        if self._is_visible and not is_visible:
            self.grid.forget_previews()
        self._is_visible = is_visible

    def describe(self, place: int) -> str:
        images = self.series.at(place)
        if len(images) > 1:
            return f"{len(images)} images"
        return images[0].caption

    def _show_place(self) -> None:
        super()._show_place()
        self.grid.show_images(self.images())
        self.previews_wanted.emit()


class HistogramCard(MediaCard):
    """The histograms of a series over its steps."""

    def __init__(self, series: HistogramSeries, parent: QWidget | None = None) -> None:
        self.series = series
        self.ridge = Ridge()
        super().__init__(series.name, self.ridge, parent)
        self.update_series()

    @property
    def steps(self) -> list[int]:
        return self.series.steps

    def describe(self, place: int) -> str:
        count = self.series.histograms[place].total
        return f"{count:,.0f} values"  # the picture has the lowest and highest

    def _show_place(self) -> None:
        super()._show_place()
        self.ridge.show_histograms(self.series.histograms, self.slider.value())
        self.ridge.setAccessibleName(f"Histograms of {self.name}: {self.note.text()}")


class StepSlider(QSlider):
    """A slider over steps; the wheel scrolls the panel behind it."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setPageStep(1)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ignore the wheel."""
        event.ignore()

    def minimumSizeHint(self) -> QSize:
        """As low as its handle."""
        return QSize(40, 16)
