"""The rail: what stands in the place of the left column while that is folded."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QFrame, QMenu, QSizePolicy, QToolButton

from gui.devices.device_rail import DeviceRail
from gui.style.theme import icon, theme_of
from gui.widgets.boxes import column_of
from gui.widgets.icon_button import IconButton
from gui.widgets.plain_text import set_wrapped_tip
from gui.widgets.steady_button import let_go_of_menu

WIDTH = 48
_ICON = QSize(18, 18)


class Rail(QFrame):
    """Small buttons for the parts of the column, and the devices as bars."""

    unfold_clicked = Signal()
    devices_clicked = Signal()
    new_run_clicked = Signal()
    runs_clicked = Signal()

    def __init__(self, devices: DeviceRail) -> None:
        super().__init__()
        self.setObjectName("rail")
        self.setFixedWidth(WIDTH)
        self._devices = devices
        self.unfold = _button("sidebar", "Left column", "Show the left column")
        self.alarms = _AlarmButton("warning", "Alarms", "")
        self.alarms.setObjectName("rail")
        self.alarms.setIconSize(_ICON)
        self.alarms.hide()
        self.new_run = _button("plus", "New run", "The form for a new run")
        self.runs = _button("list", "List of runs", "The list of runs")
        self.settings = _button("gear", "Settings", "Settings of the window")
        self.settings.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.unfold.clicked.connect(self.unfold_clicked)
        self.alarms.clicked.connect(self.devices_clicked)
        self.new_run.clicked.connect(self.new_run_clicked)
        self.runs.clicked.connect(self.runs_clicked)
        layout = column_of(parent=self, margins=(4, 8, 4, 8), spacing=6)
        middle = Qt.AlignmentFlag.AlignHCenter
        layout.addWidget(self.unfold, 0, middle)
        layout.addWidget(self.alarms, 0, middle)
        devices.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        layout.addWidget(devices, 1)
        layout.addWidget(self.new_run, 0, middle)
        layout.addWidget(self.runs, 0, middle)
        layout.addStretch(1)
        layout.addWidget(self.settings, 0, middle)

    def set_settings(self, *entries: QAction | QMenu) -> None:
        """Set what the button Settings offers."""
        menu = QMenu(self.settings.accessibleName(), self.settings)
        for entry in entries:
            if isinstance(entry, QMenu):
                menu.addMenu(entry)
            else:
                menu.addAction(entry)
        self.settings.setMenu(menu)
        let_go_of_menu(self.settings)

    def show_alarms(self, texts: str, tone: str) -> None:
        """Show that there are alarms; `texts` may be empty. `tone`: `bad` or `warning`."""
        self.alarms.set_tone(tone)
        set_wrapped_tip(self.alarms, texts)
        self.alarms.setAccessibleDescription(texts)
        self.alarms.setVisible(bool(texts))


class _AlarmButton(IconButton):
    """In the colour of the worst alarm."""

    _tone = ""

    def set_tone(self, tone: str) -> None:
        self._tone = tone
        self._apply_style()

    def _apply_style(self) -> None:
        # While a style sheet is applied, the palette of the widget is that of another theme.
        theme = theme_of(QGuiApplication.palette())
        self.setIcon(icon("warning", theme.bad if self._tone == "bad" else theme.warn))


def _button(picture: str, name: str, tip: str) -> IconButton:
    button = IconButton(picture, name, tip)
    button.setObjectName("rail")
    button.setIconSize(_ICON)
    return button
