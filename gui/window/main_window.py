"""The main window: strip, pages, column, menus and shortcuts; `gui/app.py` connects the actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QEvent, QSettings, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QGuiApplication,
    QHideEvent,
    QKeySequence,
    QPaintEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QFrame, QMainWindow, QMenu, QStackedWidget, QWidget

from gui.devices.alarm_bar import AlarmBar
from gui.devices.device_list import DeviceList
from gui.log.log_bar import LogBar
from gui.log.log_view import LogView
from gui.media.media_bar import MediaBar
from gui.run_list.run_list_panel import RunListPanel
from gui.style.theme import Choice
from gui.widgets.boxes import column_of, scrolled
from gui.widgets.icon_button import IconButton
from gui.widgets.layouts.place import Place
from gui.widgets.plain_text import Label
from gui.window.body import Body
from gui.window.left_column import LeftColumn
from gui.window.lower_panel import LowerPanel, RunPage
from gui.window.pages import PAGES, PageName, keys_of
from gui.window.rail import Rail
from gui.window.shortcuts import ShortcutsDialog, go_to_pane
from gui.window.strip import LoneAlt, WindowStrip
from gui.window.tab_order import TabOrder
from gui.window.window_layout import WindowLayout

_PLOTS_HEIGHT = 150
"""Least height of the plots of a run in logical pixels: where less is left, the page scrolls."""


@dataclass(frozen=True, kw_only=True)
class WindowParts:
    """The widgets that the window lays out."""

    controls: QWidget
    alarms: AlarmBar
    devices: DeviceList
    machines: QWidget
    """The cards of other machines."""

    form: QWidget
    run_list: RunListPanel
    banner: QWidget
    script_bar: QWidget
    figures: QWidget
    welcome_page: QWidget
    log: LogView
    events: QWidget
    log_bar: LogBar
    media: QWidget
    media_bar: MediaBar
    plots: Place = field(default_factory=Place)
    pages: Mapping[PageName, Place] = field(
        default_factory=lambda: {name: Place() for name in PAGES if name != "run"}
    )
    """All pages but that of the watched run."""

    overview: Place = field(default_factory=Place)
    overview_bar: Place = field(default_factory=Place)
    """Places are filled after the window was painted."""


class MainWindow(QMainWindow):
    """Lays out the parts, and restores the saved size and layout."""

    visibility_changed = Signal(bool)
    """Whether the window is visible: it is neither hidden nor minimised."""

    page_changed = Signal(str)
    """Which page is shown now: a PageName."""

    first_painted = Signal()
    """Emitted once: from now on, other work does not delay what the user sees first."""

    def __init__(self, parts: WindowParts, settings: QSettings) -> None:
        super().__init__()
        self.parts = parts
        self._was_painted = False
        self._lone_alt = LoneAlt()
        self.keeps_open: Callable[[], bool] = lambda: False
        """Asked when the user closes the window: whether it stays, and the user is asked first."""

        self.menus: list[QMenu] = []
        """What the menu button opens, from the first to the last."""

        self.setWindowTitle("Traindeck")
        self.setObjectName("window")
        self.open_recipe = self._action("Open file…", "Ctrl+O")
        self.new_recipe = self._action("New recipe…", "Ctrl+N")
        self.check_recipe = self._action("Check recipe", "Ctrl+K")
        self.import_runs = self._action("Import runs…", "Ctrl+Shift+I")
        self.add_machine = self._action("Add a machine…", "")
        self.export_run = self._action("Export this run…", "Ctrl+Shift+E")
        self.open_case = self._action("Open a failure file…", "")
        self.save_case = self._action("Save the failure file…", "")
        self.choose_editor = self._action("Editor…", "")
        self.quit = self._action("Quit", QKeySequence.StandardKey.Quit)
        self.start = self._action("Start run", "Ctrl+R")
        self.sweep = self._action("Sweep…", "Ctrl+Shift+R")
        self.stop = self._action("Stop", "Ctrl+.")
        self.checkpoint = self._action("Save checkpoint", "Ctrl+S")
        self.filter_action = self._action("Filter", "Ctrl+F")
        self.toggle_theme = self._action("Dark or light", "Ctrl+Shift+L")
        self.fit = self._action("Fit plots", "F")
        self.reset_layout = self._action("Reset layout", "")
        self._add_menu(
            "&File",
            *(self.open_recipe, self.new_recipe, self.check_recipe),
            *(self.import_runs, self.export_run, self.open_case, self.save_case),
            *(self.add_machine, self.choose_editor, self.quit),
        )
        self.pause = self._action("Pause or resume", "Ctrl+P")
        self.empty_cache = self._action("Empty cache", "Ctrl+E")
        self.preflight = self._action("Preflight", "Ctrl+Shift+P")
        self.race_strategies = self._action("Race strategies", "")
        self.replay_step = self._action("What made the suspicious step", "Ctrl+Shift+S")
        self.find_batch_size = self._action("Find batch size…", "Ctrl+Shift+B")
        self.copy_command = self._action("Copy command", "Ctrl+Shift+C")
        self.keep_loaded = self._action("Keep frameworks loaded", "")
        self.keep_loaded.setCheckable(True)
        self.keep_loaded.setChecked(True)
        self.run_menu = self._add_menu(
            "&Run",
            *(self.start, self.sweep, self.pause, self.stop, self.checkpoint, self.empty_cache),
            *(self.replay_step, self.preflight, self.race_strategies, self.find_batch_size),
            *(self.copy_command, self.keep_loaded),
        )
        self.theme_choices: dict[Choice, QAction] = {
            "system": self._action("As the system", ""),
            "dark": self._action("Dark", ""),
            "light": self._action("Light", ""),
        }
        self.fold_column = self._action("Left column", "Ctrl+B")
        self.fold_panel = self._action("Lower panel", "Ctrl+J")
        self.fill_page = self._action("Lower panel fills the page", "Ctrl+Shift+J")
        overview = self._action("Overview", "Ctrl+I")
        overview.triggered.connect(self.show_overview)
        view_menu = self._add_menu(
            "&View",
            *(self.fit, overview, self.fold_column, self.fold_panel, self.fill_page),
            *(self.toggle_theme, self.reset_layout),
        )
        theme_menu = view_menu.addMenu("Theme")
        theme_menu.addActions(list(self.theme_choices.values()))
        self._add_go_menu()
        self._add_help_menu()
        self.filter = parts.log_bar.filter
        self.status = Label()
        self.strip = WindowStrip(self.menus, parts.controls)
        self.strip.page_chosen.connect(self.show_page)
        self.bottom = self._lower_panel(parts)
        self.run_page = RunPage(self._run_content(parts), self.bottom)
        self._pages = QStackedWidget()
        self._pages.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._pages.setAccessibleName("Page")
        self._by_name: dict[PageName, QWidget] = {
            "run": self.run_page,
            **{name: scrolled(place) for name, place in parts.pages.items()},
        }
        for page in self._by_name.values():
            self._pages.addWidget(page)
        self.rail = Rail(parts.devices.rail)
        self.rail.set_settings(theme_menu, self.choose_editor, self.keep_loaded, self.reset_layout)
        self.column = self._column(parts)
        self.body = Body(self.column, self.rail, self._pages)
        self._lay_out()
        self._connect_folding(parts)
        beside: list[QWidget] = [self.strip, self.rail, parts.devices, parts.machines]
        beside += [parts.form, parts.alarms, parts.run_list]
        centre: list[QWidget] = [parts.banner, parts.script_bar, parts.figures, parts.plots]
        centre += [parts.welcome_page, *parts.pages.values()]
        self._panes = [*beside, *centre]
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status)
        self.filter_action.triggered.connect(self._focus_filter)
        self.quit.triggered.connect(self.close)
        TabOrder(self, (*beside, self.body.handle, *centre, self.bottom))
        self._layout = WindowLayout(self, self.body, self.run_page, self.bottom, settings)
        self.reset_layout.triggered.connect(self._layout.reset)
        self._layout.restore()
        self.strip.menu_button.setFocus()  # named, and a Space there does no harm

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save size and layout. The runs continue: they do not depend on the window."""
        app = QGuiApplication.instance()
        is_logout = isinstance(app, QGuiApplication) and app.isSavingSession()
        if not is_logout and self.keeps_open():
            event.ignore()
            return
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
        self.parts.welcome_page.setVisible(shown)
        for widget in (self.parts.figures, self.parts.plots):
            widget.setVisible(not shown)

    @property
    def page(self) -> PageName:
        """Which page is shown."""
        shown = self._pages.currentWidget()
        return next(name for name, page in self._by_name.items() if page is shown)

    def show_page(self, page: PageName) -> None:
        """Show one of the pages in the table `gui/window/pages.py`."""
        if page == self.page:
            return
        focused = self.focusWidget()
        is_lost = focused is not None and self._pages.isAncestorOf(focused)
        self._pages.setCurrentWidget(self._by_name[page])
        if is_lost:  # Qt would move it to an arbitrary widget
            self._pages.setFocus()
        self.body.set_page(page)
        self.strip.show_page(page)
        self.page_changed.emit(page)

    def show_log(self) -> None:
        """Bring the tab Log to the front."""
        self._show_tab(self.parts.log)

    def show_overview(self) -> None:
        """Bring the tab Overview to the front."""
        self._show_tab(self.parts.overview)

    def show_media(self) -> None:
        """Bring the tab Media to the front."""
        self._show_tab(self.parts.media)

    def show_form(self) -> None:
        """Make the form visible, with the keyboard focus in it."""
        self.body.show_over(self.parts.form)

    def show_checking(self, is_checking: bool) -> None:
        """Let the action for a check of the recipe end the one that is going on."""
        text = "Stop the check" if is_checking else "Check recipe"
        self.check_recipe.setText(text)

    def show_on_screen(self) -> None:
        """Show the window within the usable area of its screen."""
        self._layout.show_on_screen()

    def _show_tab(self, page: QWidget) -> None:
        self.show_page("run")
        self.bottom.show_page(page)
        self.run_page.unfold()

    def show_shortcuts(self) -> None:
        """Open the list of keyboard shortcuts."""
        dialog = ShortcutsDialog(self, self.menus)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def event(self, event: QEvent) -> bool:
        """Open the menu when Alt was pressed alone, as a menu bar would."""
        if self._lone_alt.heard(event):
            self.strip.menu_button.open()
        return super().event(event)

    def _focus_filter(self) -> None:
        self.show_page("run")
        if self.bottom.page is self.parts.overview:  # it has nothing to filter
            self.bottom.show_page(self.parts.log)
        self.run_page.unfold()
        is_media = self.bottom.page is self.parts.media
        line = self.parts.media_bar.search if is_media else self.filter
        line.setFocus(Qt.FocusReason.ShortcutFocusReason)
        line.selectAll()

    def _action(self, text: str, keys: str | QKeySequence.StandardKey) -> QAction:
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        self.addAction(action)
        return action

    def _add_menu(self, title: str, *actions: QAction) -> QMenu:
        menu = QMenu(title, self)
        menu.addActions(actions)
        self.menus.append(menu)
        return menu

    def _add_go_menu(self) -> None:
        self.first_error = self._action("First error", "F8")
        self.find_next = self._action("Find next", QKeySequence.StandardKey.FindNext)
        self.find_previous = self._action("Find previous", QKeySequence.StandardKey.FindPrevious)
        next_pane = self._action("Next pane", "F6")
        previous_pane = self._action("Previous pane", "Shift+F6")
        next_pane.triggered.connect(lambda: go_to_pane(self._shown_panes(), 1))
        previous_pane.triggered.connect(lambda: go_to_pane(self._shown_panes(), -1))
        pages = {name: self._action(page.entry, keys_of(name)) for name, page in PAGES.items()}
        for name, action in pages.items():
            action.triggered.connect(lambda *_, to=name: self.show_page(to))
        self._add_menu(
            "&Go",
            *pages.values(),
            *(self.filter_action, self.find_next, self.find_previous, self.first_error),
            *(next_pane, previous_pane),
        )

    def _add_help_menu(self) -> None:
        help_action = self._action("Keyboard shortcuts", "")
        help_action.setShortcuts([QKeySequence("?"), QKeySequence("F1")])
        help_action.triggered.connect(self.show_shortcuts)
        self.doctor = self._action("Doctor…", "")
        self._add_menu("&Help", help_action, self.doctor)

    def _column(self, parts: WindowParts) -> QWidget:
        runs = _Card()
        column_of(parts.run_list, parent=runs, margins=(10, 5, 6, 5))
        scroll = scrolled(
            LeftColumn(
                parts.devices, parts.machines, parts.form, parts.alarms, runs, parts.run_list
            )
        )
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        fold = IconButton("sidebar", "Fold the left column", "")
        fold.setToolTip("Fold the left column (Ctrl+B)")
        fold.clicked.connect(self.fold_column.trigger)
        parts.devices.add_corner(fold)
        return scroll

    def _run_content(self, parts: WindowParts) -> QWidget:
        content = QWidget()
        content.setObjectName("scrolled")
        column = column_of(parent=content, margins=0, spacing=8)
        parts.plots.setMinimumHeight(_PLOTS_HEIGHT)
        column.addWidget(parts.banner)
        column.addWidget(parts.script_bar)
        column.addWidget(parts.welcome_page, 1)
        column.addWidget(parts.figures)
        column.addWidget(parts.plots, 1)
        return scrolled(content)

    def _lower_panel(self, parts: WindowParts) -> LowerPanel:
        panel = LowerPanel()
        parts.log.setObjectName("log")
        parts.events.setObjectName("events")
        parts.overview.setObjectName("overview")
        parts.media.setObjectName("media")
        panel.add(parts.log, "Log", parts.log_bar)
        panel.add(parts.events, "Events", parts.log_bar)
        panel.add(parts.overview, "Overview", parts.overview_bar)
        panel.add(parts.media, "Media", parts.media_bar)
        parts.log.newest.connect(panel.show_line)
        parts.log.levels.connect(panel.show_warnings)
        return panel

    def _shown_panes(self) -> list[QWidget]:
        page = self.bottom.page
        is_line = self.bottom.fold == "folded"
        return [*self._panes, self.bottom if is_line or page is None else page]

    def _lay_out(self) -> None:
        parts = self.parts
        for page in parts.pages.values():
            page.setObjectName("scrolled")
            page.setContentsMargins(4, 8, 8, 6)
        whole = QWidget()
        column_of(self.strip, (self.body, 1), parent=whole, margins=0, spacing=0)
        self.setCentralWidget(whole)
        self.strip.show_page("run")

    def _connect_folding(self, parts: WindowParts) -> None:
        body, rail = self.body, self.rail
        rail.unfold_clicked.connect(lambda: body.fold(False))
        rail.devices_clicked.connect(lambda: body.show_over(parts.devices))
        rail.new_run_clicked.connect(lambda: body.show_over(parts.form))
        rail.runs_clicked.connect(lambda: body.show_over(parts.run_list))
        parts.devices.rail.opened.connect(lambda: body.show_over(parts.devices))
        parts.alarms.summary.connect(rail.show_alarms)
        self.fold_column.triggered.connect(self._fold_column)
        self.fold_panel.triggered.connect(self._fold_panel)
        self.fill_page.triggered.connect(self._fill_page)

    def _fold_column(self) -> None:
        if self.body.is_open_over:
            self.body.close_over()
        else:
            self.body.fold(not self.body.is_folded)

    def _fold_panel(self) -> None:
        self.show_page("run")
        self.run_page.choose("open" if self.bottom.fold == "folded" else "folded")

    def _fill_page(self) -> None:
        self.show_page("run")
        self.run_page.choose("open" if self.bottom.fold == "full" else "full")


class _Card(QFrame):
    """A card whose height does not depend on its width, although it contains wrapped text."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")

    def hasHeightForWidth(self) -> bool:
        return False
