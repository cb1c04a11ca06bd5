"""The bar above the plots: smoothing, and what all plots do alike."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QToolButton, QWidget

from gui.theme import Theme, icon

_FINEST = 1000
_DEFAULT = 900


class PlotBar(QWidget):
    """Holds the choices; who wants to know listens."""

    smoothing_changed = Signal(float)
    """0 to 0.999."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, _FINEST - 1)
        self.slider.setFixedWidth(120)
        self.slider.setAccessibleName("Smoothing")
        self.slider.setToolTip("How much of the past each point of a smoothed line keeps")
        self._value = QLabel()
        self._value.setMinimumWidth(40)
        self.log_y = _toggle("Log y", "Logarithmic values")
        self.raw = _toggle("Raw", "Show the values behind the smoothed lines")
        self.link_x = _toggle("Link x", "All plots show the same steps")
        self.follow = _toggle(
            "Follow",
            "Go on showing everything; a zoom by hand (a drag, or Ctrl and the wheel) ends it",
        )
        self.fit = _toggle("Fit", "Show everything now (F, or a double click in a plot)")
        self.fit.setCheckable(False)
        for button in (self.raw, self.link_x, self.follow):
            button.setChecked(True)
        self._buttons = {
            self.log_y: "chart-line",
            self.raw: "waveform",
            self.link_x: "link",
            self.follow: "arrow-line-right",
            self.fit: "corners-out",
        }
        self._lay_out()
        self.slider.valueChanged.connect(self._slid)
        self.slider.setValue(_DEFAULT)
        for button in self._buttons:
            button.toggled.connect(self._draw_icons)
        self.set_theme(theme)

    @property
    def smoothing(self) -> float:
        """Where the slider stands, 0 to 0.999."""
        return self.slider.value() / _FINEST

    def set_theme(self, theme: Theme) -> None:
        """Draw the icons for `theme`."""
        self._theme = theme
        self._draw_icons()

    def _draw_icons(self) -> None:
        for button, name in self._buttons.items():
            on = button.isChecked()
            button.setIcon(icon(name, self._theme.accent if on else self._theme.muted))

    def _slid(self) -> None:
        self._value.setText(
            f"{self.smoothing:.3f}" if self.smoothing > 0.99 else f"{self.smoothing:.2f}"
        )
        self.smoothing_changed.emit(self.smoothing)

    def _lay_out(self) -> None:
        caption = QLabel("S&moothing")
        caption.setObjectName("mut")
        caption.setBuddy(self.slider)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(caption)
        layout.addWidget(self.slider)
        layout.addWidget(self._value)
        layout.addStretch(1)
        for button in self._buttons:
            layout.addWidget(button)


def _toggle(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolTip(tip)
    button.setCheckable(True)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    return button
