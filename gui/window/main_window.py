"""The main window: toolbar, docks, menus and shortcuts; `gui/app.py` connects the actions."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSettings, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QHideEvent,
    QKeySequence,
    QPaintEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QMainWindow,
    QMenu,
    QScrollArea,
    QTabWidget,
    QToolBar,
    QVBoxLayout,
    QWidget,
)

from gui.log.log_bar import LogBar
from gui.style.theme import Choice
from gui.widgets.plain_text import Label
from gui.window.shortcuts import ShortcutsDialog, go_to_pane
from gui.window.tab_order import TabOrder
from gui.window.template_label import TemplateLabel
from gui.window.window_layout import WindowLayout

SIDE_WIDTH = 316


@dataclass(frozen=True, kw_only=True)
class WindowParts:
    """The widgets that the window lays out."""

    controls: QWidget
    alarms: QWidget
    devices: QWidget
    form: QWidget
    run_list: QWidget
    banner: QWidget
    figures: QWidget
    plots: QWidget
    comparison: QWidget
    welcome_page: QWidget
    log: QWidget
    events: QWidget
    log_bar: LogBar


class MainWindow(QMainWindow):
    """Lays out the parts, and restores the saved size and layout."""

    visibility_changed = Signal(bool)
    """Whether the window is visible: it is neither hidden nor minimised."""

    first_painted = Signal()
    """Emitted once: from now on, other work does not delay what the user sees first."""

    def __init__(self, parts: WindowParts, settings: QSettings) -> None:
        super().__init__()
        self._parts = parts
        self._shows_welcome, self._bottom_was_shown = False, True
        self._was_painted = False
        self.setWindowTitle("Traindeck")
        self.setObjectName("window")
        self.open_recipe = self._action(self.tr("Open recipe…"), "Ctrl+O")
        self.quit = self._action(self.tr("Quit"), QKeySequence.StandardKey.Quit)
        self.start = self._action(self.tr("Start run"), "Ctrl+R")
        self.stop = self._action(self.tr("Stop"), "Ctrl+.")
        self.checkpoint = self._action(self.tr("Save checkpoint"), "Ctrl+S")
        self.filter_action = self._action(self.tr("Filter"), "Ctrl+F")
        self.toggle_theme = self._action(self.tr("Dark or light"), "Ctrl+Shift+L")
        self.fit = self._action(self.tr("Fit plots"), "F")
        self.reset_layout = self._action(self.tr("Reset layout"), "")
        self._add_menu(self.tr("&File"), self.open_recipe, self.quit)
        self.pause = self._action(self.tr("Pause or resume"), "Ctrl+P")
        self.empty_cache = self._action(self.tr("Empty cache"), "Ctrl+E")
        self.copy_command = self._action(self.tr("Copy command"), "Ctrl+Shift+C")
        self.keep_loaded = self._action(self.tr("Keep frameworks loaded"), "")
        self.keep_loaded.setCheckable(True)
        self.keep_loaded.setChecked(True)
        self._add_menu(
            self.tr("&Run"),
            *(self.start, self.pause, self.stop, self.checkpoint, self.empty_cache),
            *(self.copy_command, self.keep_loaded),
        )
        self.theme_choices: dict[Choice, QAction] = {
            "system": self._action(self.tr("As the system"), ""),
            "dark": self._action(self.tr("Dark"), ""),
            "light": self._action(self.tr("Light"), ""),
        }
        self.view_menu = self._add_menu(
            self.tr("&View"), self.fit, self.toggle_theme, self.reset_layout
        )
        self.view_menu.addMenu(self.tr("Theme")).addActions(list(self.theme_choices.values()))
        self._add_go_menu()
        self._add_help_menu()
        side = (parts.alarms, parts.devices, parts.form, parts.run_list)
        centre = (parts.banner, parts.welcome_page, parts.plots, parts.comparison)
        self._panes = (parts.controls, *side, *centre, parts.log, parts.events)
        self.filter = parts.log_bar.filter
        self.status = Label()
        self._add_bar(parts.controls)
        self._add_side(parts)
        self._add_centre(parts)
        self.bottom = self._add_bottom(parts)
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status)
        self.template_label = TemplateLabel()
        self.statusBar().addPermanentWidget(self.template_label)
        self.filter_action.triggered.connect(self._focus_filter)
        self.quit.triggered.connect(self.close)
        TabOrder(
            self,
            (
                parts.controls, *side, parts.banner, parts.figures, parts.plots,
                parts.welcome_page, parts.comparison, parts.log_bar, parts.log, parts.events,
            ),
        )  # fmt: skip
        self._layout = WindowLayout(self, self.bottom, self._tabs, settings)
        self.reset_layout.triggered.connect(self._layout.reset)
        self._layout.restore()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save size and layout. The runs continue: they do not depend on the window."""
        if self._parts.comparison.isVisible():
            self.show_comparison(False)
        self._layout.save()
        super().closeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._was_painted:
            self._was_painted = True
            self.first_painted.emit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.visibility_changed.emit(not self.isMinimized())

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.visibility_changed.emit(False)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() is QEvent.Type.WindowStateChange:
            self.visibility_changed.emit(self.isVisible() and not self.isMinimized())

    def show_welcome(self, shown: bool) -> None:
        """Show the welcome page in the centre (True) or the plots (False)."""
        self._shows_welcome = shown
        self._parts.welcome_page.setVisible(shown)
        for widget in (self._parts.figures, self._parts.plots):
            widget.setVisible(not shown)

    def show_comparison(self, shown: bool) -> None:
        """Show the comparison in the centre, without the log (True), or the single run (False)."""
        self._parts.comparison.setVisible(shown)
        self._parts.welcome_page.setVisible(not shown and self._shows_welcome)
        for widget in (self._parts.figures, self._parts.plots):
            widget.setVisible(not shown and not self._shows_welcome)
        if shown:
            self._bottom_was_shown = not self.bottom.isHidden()
        self.bottom.setVisible(not shown and self._bottom_was_shown)

    def show_log(self) -> None:
        """Bring the tab Log to the front."""
        self.bottom.show()
        self._tabs.setCurrentWidget(self._parts.log)

    def show_shortcuts(self) -> None:
        """Open the list of keyboard shortcuts."""
        dialog = ShortcutsDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def _focus_filter(self) -> None:
        self.bottom.show()
        self.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.filter.selectAll()

    def _action(self, text: str, keys: str | QKeySequence.StandardKey) -> QAction:
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        self.addAction(action)
        return action

    def _add_menu(self, title: str, *actions: QAction) -> QMenu:
        menu = self.menuBar().addMenu(title)
        menu.addActions(actions)
        return menu

    def _add_go_menu(self) -> None:
        self.first_error = self._action(self.tr("First error"), "F8")
        self.find_next = self._action(self.tr("Find next"), QKeySequence.StandardKey.FindNext)
        self.find_previous = self._action(
            self.tr("Find previous"), QKeySequence.StandardKey.FindPrevious
        )
        next_pane = self._action(self.tr("Next pane"), "F6")
        previous_pane = self._action(self.tr("Previous pane"), "Shift+F6")
        next_pane.triggered.connect(lambda: go_to_pane(self._panes, 1))
        previous_pane.triggered.connect(lambda: go_to_pane(self._panes, -1))
        self._add_menu(
            self.tr("&Go"),
            *(self.filter_action, self.find_next, self.find_previous, self.first_error),
            *(next_pane, previous_pane),
        )

    def _add_help_menu(self) -> None:
        help_action = self._action(self.tr("Keyboard shortcuts"), "")
        help_action.setShortcuts([QKeySequence("?"), QKeySequence("F1")])
        help_action.triggered.connect(self.show_shortcuts)
        self._add_menu(self.tr("&Help"), help_action)

    def _add_bar(self, controls: QWidget) -> None:
        bar = QToolBar(self.tr("Run"))
        bar.setObjectName("run bar")
        bar.setMovable(False)
        bar.toggleViewAction().setEnabled(False)
        bar.addWidget(controls)
        self.addToolBar(bar)

    def _add_side(self, parts: WindowParts) -> None:
        content = QWidget()
        content.setObjectName("content")
        column = QVBoxLayout(content)
        column.setContentsMargins(10, 10, 4, 6)
        column.setSpacing(8)
        column.addWidget(parts.alarms)
        column.addWidget(parts.devices)
        column.addWidget(parts.form)
        runs = _Card()
        inside = QVBoxLayout(runs)
        inside.setContentsMargins(10, 5, 6, 5)
        inside.addWidget(parts.run_list)
        column.addWidget(runs, 1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(content)
        scroll.setFixedWidth(SIDE_WIDTH)
        dock = self._dock(self.tr("Devices and runs"), "side", scroll)
        self.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
        self.setCorner(Qt.Corner.BottomLeftCorner, Qt.DockWidgetArea.LeftDockWidgetArea)

    def _add_centre(self, parts: WindowParts) -> None:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(2, 10, 10, 0)
        column.setSpacing(8)
        column.addWidget(parts.banner)
        column.addWidget(parts.welcome_page, 1)
        column.addWidget(parts.figures)
        column.addWidget(parts.plots, 1)
        column.addWidget(parts.comparison, 1)
        parts.comparison.hide()
        self.setCentralWidget(centre)
        centre.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        centre.setFocus()  # otherwise a button has the focus, and the first Space presses it

    def _add_bottom(self, parts: WindowParts) -> QDockWidget:
        tabs = QTabWidget()
        parts.log.setObjectName("log")
        parts.events.setObjectName("events")
        tabs.addTab(parts.log, self.tr("Log"))
        tabs.addTab(parts.events, self.tr("Events"))
        tabs.setCornerWidget(parts.log_bar)
        self._tabs = tabs
        card = QFrame()
        card.setObjectName("card")
        inside = QVBoxLayout(card)
        inside.setContentsMargins(6, 4, 6, 4)
        inside.addWidget(tabs)
        content = QWidget()
        around = QVBoxLayout(content)
        around.setContentsMargins(2, 2, 10, 6)
        around.addWidget(card)
        dock = self._dock(self.tr("Log and events"), "bottom", content)
        self.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
        return dock

    def _dock(self, title: str, name: str, content: QWidget) -> QDockWidget:
        dock = QDockWidget(title, self)
        dock.setObjectName(name)
        dock.setTitleBarWidget(QWidget())
        dock.setFeatures(QDockWidget.DockWidgetFeature.DockWidgetClosable)
        dock.setWidget(content)
        self.view_menu.addAction(dock.toggleViewAction())
        return dock


class _Card(QFrame):
    """A card whose height does not depend on its width, although it contains wrapped text."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")

    def hasHeightForWidth(self) -> bool:
        return False
