"""The toolbar above the plots: smoothing, horizontal axis, and switches for all plots."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QToolButton, QWidget

from gui.plots.data.x_axis import XKind
from gui.style.theme import Theme, icon
from gui.widgets.boxes import row_of
from gui.widgets.jump_slider import JumpSlider
from gui.widgets.plain_text import Label, plain_tip
from gui.widgets.steady_button import let_go_of_menu

_SLIDER_STEPS = 1000
FIRST_SMOOTHING = 0.0
"""Curves show their points until the user wants them smoothed."""

_ICON_AND_TEXT = Qt.ToolButtonStyle.ToolButtonTextBesideIcon


_X_CHOICES = {
    XKind.STEP: ("Step", "Optimizer steps along the horizontal axis"),
    XKind.EPOCH: ("Epoch", "Passes over the training data along the horizontal axis"),
    XKind.RELATIVE: (
        "Elapsed",
        "Time of training along the horizontal axis: pauses count, the time in which the run was "
        "down between two attempts does not",
    ),
    XKind.WALL: (
        "Wall time",
        "Date and time of day along the horizontal axis, with a gap where the run was down",
    ),
}
"""Text and tooltip of each button of the horizontal axis."""


class PlotToolbar(QWidget):
    """Holds the choices, and emits a signal for each change."""

    smoothing_changed = Signal(float)
    """The new smoothing, 0 to 0.999."""

    x_chosen = Signal(object)
    """XKind."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = JumpSlider()
        self.slider.setRange(0, _SLIDER_STEPS - 1)
        self.slider.setFixedWidth(60)
        self.slider.setAccessibleName("Smoothing")
        self.slider.setToolTip("How much of the past each point of a smoothed line keeps")
        self._value = Label()
        self._value.setMinimumWidth(32)
        self.x_buttons = {kind: _segment(*texts) for kind, texts in _X_CHOICES.items()}
        self.x_choice = _XChoice(self.x_buttons)
        """In the place of the buttons where they do not fit."""

        self.log_y = _toggle("Log y", "Logarithmic values")
        self.raw = _toggle("Raw", "Show the values behind the smoothed lines")
        self.markers = _toggle(
            "Marks", "Show checkpoints, restarts, changes, pauses and alarms in the plots"
        )
        self.link_x = _toggle("Link x", "All plots show the same part of the horizontal axis")
        self.follow = _toggle(
            "Follow",
            (
                "Keep showing everything; a zoom (a drag, or Ctrl and the wheel; along the "
                "values with Shift) ends it"
            ),
        )
        self.fit = _toggle("Fit", "Show everything now (F, or a double click in a plot)")
        self.fit.setCheckable(False)
        self.plots = _toggle("Plots", "Choose which plots are shown")
        self.plots.setCheckable(False)
        self.plots_menu = QMenu(self)
        self.plots.setMenu(self.plots_menu)
        let_go_of_menu(self.plots)
        self.plots.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        for button in (self.raw, self.markers, self.link_x, self.follow):
            button.setChecked(True)
        self._buttons = {
            self.log_y: "chart-line",
            self.raw: "waveform",
            self.markers: "flag",
            self.link_x: "link",
            self.follow: "arrow-line-right",
            self.fit: "corners-out",
            self.plots: "squares-four",
        }
        self._text_buttons = [button for button in self._buttons if button is not self.plots]
        self.plots.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self._row = QHBoxLayout(self)
        self._build_layout()
        self.slider.valueChanged.connect(self._slider_moved)
        self.set_smoothing(FIRST_SMOOTHING)
        self._show_smoothing()
        for button in self._buttons:
            button.toggled.connect(self._draw_icons)
        for kind, button in self.x_buttons.items():
            button.clicked.connect(partial(self.x_chosen.emit, kind))
        self.x_buttons[XKind.STEP].setChecked(True)
        self.set_theme(theme)

    @property
    def smoothing(self) -> float:
        """The value of the slider, 0 to 0.999."""
        return self.slider.value() / _SLIDER_STEPS

    @property
    def x_kind(self) -> XKind:
        """What the horizontal axes show."""
        return next(kind for kind, button in self.x_buttons.items() if button.isChecked())

    def set_smoothing(self, smoothing: float) -> None:
        """Set the slider to `smoothing`, 0 to 0.999."""
        self.slider.setValue(round(smoothing * _SLIDER_STEPS))

    def choose_x(self, kind: XKind) -> None:
        """Click the button of `kind`."""
        self.x_buttons[kind].click()

    def set_theme(self, theme: Theme) -> None:
        """Draw the icons in the colours of `theme`."""
        self._theme = theme
        self._draw_icons()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show icons without text where the text does not fit."""
        super().resizeEvent(event)
        self._choose_style()

    def _choose_style(self) -> None:
        icons = Qt.ToolButtonStyle.ToolButtonIconOnly
        for style, is_menu in ((_ICON_AND_TEXT, False), (icons, False), (icons, True)):
            for button in self._text_buttons:
                button.setToolButtonStyle(style)
            self._segments.setHidden(is_menu)
            self.x_choice.setHidden(not is_menu)
            if self._row.sizeHint().width() <= self.width():
                return

    def minimumSizeHint(self) -> QSize:
        """The size with icons and a menu."""
        row = self._row.sizeHint()
        width = row.width()
        if self.fit.toolButtonStyle() is _ICON_AND_TEXT:
            metrics = self.fontMetrics()
            width -= sum(metrics.horizontalAdvance(each.text()) for each in self._text_buttons)
        if self.x_choice.isHidden():
            width += self.x_choice.sizeHint().width() - self._segments.sizeHint().width()
        return QSize(width, row.height())

    def _draw_icons(self) -> None:
        for button, name in self._buttons.items():
            on = button.isChecked()
            button.setIcon(icon(name, self._theme.accent if on else self._theme.muted))

    def _slider_moved(self) -> None:
        self._show_smoothing()
        self.smoothing_changed.emit(self.smoothing)

    def _show_smoothing(self) -> None:
        self._value.setText(
            f"{self.smoothing:.3f}" if self.smoothing > 0.99 else f"{self.smoothing:.2f}"
        )

    def _build_layout(self) -> None:
        caption = Label("S&mooth", objectName="mut")
        caption.setBuddy(self.slider)
        x_caption = Label("&X", objectName="mut")
        x_caption.setBuddy(self.x_buttons[XKind.STEP])
        self._segments = QWidget()
        row_of(*self.x_buttons.values(), parent=self._segments, margins=0, spacing=0)
        self.x_choice.hide()
        layout = self._row
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(caption)
        layout.addSpacing(4)
        layout.addWidget(self.slider)
        layout.addWidget(self._value)
        layout.addWidget(x_caption)
        layout.addSpacing(2)
        layout.addWidget(self._segments)
        layout.addWidget(self.x_choice)
        layout.addStretch(1)
        for button in self._buttons:
            layout.addWidget(button)


class _XChoice(QToolButton):
    """One button with a menu for the buttons of the horizontal axis; it shows the chosen one."""

    def __init__(self, buttons: Mapping[XKind, QToolButton]) -> None:
        super().__init__()
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setObjectName("axis")
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        for button in buttons.values():
            menu.addAction(button.text(), button.click).setToolTip(plain_tip(button.toolTip()))
            button.toggled.connect(partial(self._show, button))
        self.setMenu(menu)
        let_go_of_menu(self)

    def _show(self, button: QToolButton, chosen: bool) -> None:
        if chosen:
            self.setText(button.text())
            self.setAccessibleName(button.accessibleName())
            self.setToolTip(plain_tip(button.toolTip()))


def _segment(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setObjectName("segment")
    button.setText(text)
    button.setToolTip(plain_tip(tip))
    button.setAccessibleName(f"Horizontal axis: {text}")
    button.setCheckable(True)
    button.setAutoExclusive(True)
    return button


def _toggle(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolTip(plain_tip(tip))
    button.setAccessibleName(text)
    button.setCheckable(True)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(_ICON_AND_TEXT)
    return button
