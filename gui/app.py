"""The composition root: builds all widgets and controllers of the window and connects them."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence

from PySide6.QtCore import QObject, QSettings, QTimer

from engine.runs.run_info import RunInfo
from engine.system.program import call
from engine.telemetry.snapshot import Snapshot
from gui.bridge.background import Background
from gui.bridge.engine_client import EngineClient
from gui.bridge.memory_owners import MemoryOwners
from gui.bridge.settings_file import window_settings
from gui.bridge.store_reader import StoreReader
from gui.bridge.telemetry_reader import TelemetryReader
from gui.bridge.template_keeper import TemplateKeeper, TemplateStatus
from gui.compare.comparison import Comparison
from gui.devices.alarm_bar import AlarmBar
from gui.devices.device_list import DeviceList
from gui.first_run_controller import FirstRunController
from gui.log.event_table import EventTable
from gui.log.log_bar import LogBar
from gui.log.log_controller import LogController
from gui.log.log_view import LogView
from gui.plots.panel.repaint_timer import RepaintTimer
from gui.plots.panel.run_plots import RunPlots
from gui.plots_controller import PlotsController
from gui.run_form.run_form import RunForm
from gui.run_list.chosen_runs import ChosenRuns
from gui.run_list.resume_dialogs import ResumeDialogs
from gui.run_list.run_list_panel import RunListPanel
from gui.run_list.run_list_view import RunListView
from gui.run_list_controller import RunListController
from gui.run_view.failure_banner import FailureBanner
from gui.run_view.run_controls import RunControls
from gui.run_view.run_figures import RunFigures
from gui.run_view.welcome_page import WelcomePage
from gui.style.device_labels import device_labels
from gui.style.state_style import state_sentence
from gui.style.theme import Theme, ThemeController, icon
from gui.widgets.figure_card import FigureRow
from gui.window.application import application, has_display
from gui.window.desktop_notices import DesktopNotices, desktop_notify
from gui.window.main_window import MainWindow, WindowParts
from gui.window.theme_menu import ThemeMenu, restore_theme
from gui.window.window_status import WindowStatus

_log = logging.getLogger(__name__)

NO_DISPLAY = 2
"""Exit code when there is no display."""

REFRESH_RUNS_MS = 2000
MESSAGE_MS = 8000


def run(argv: Sequence[str], notice: str = "") -> int:
    """Open the window; return the exit code when it is closed. `argv[0]` is the program.

    `notice` is a sentence for the user; it may be empty.
    """
    if not has_display(sys.platform, os.environ):
        print(
            "There is no display to open a window on. Train from the command line instead: "
            f"see `{call('train --help')}`.",
            file=sys.stderr,
        )
        return NO_DISPLAY
    qt_app = application(argv)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C in the terminal ends the window only
    app = AppController(ThemeController(qt_app))
    # Not in AppController: pictures and tests open windows that load no framework.
    app.window.first_painted.connect(app.templates.begin)
    qt_app.aboutToQuit.connect(app.shut_down)
    app.window.show()
    app.show_message(notice)
    _log.info("the window is open")
    return qt_app.exec()


class AppController(QObject):
    """Owns the window, its widgets and their controllers, and connects them with the engine."""

    def __init__(self, theme: ThemeController, telemetry: TelemetryReader | None = None) -> None:
        super().__init__()
        self.theme = theme
        self.settings, settings_problem = window_settings()
        restore_theme(theme, self.settings)
        self._build_engine_side(telemetry)
        self._build_widgets(theme.current, self.settings)
        self._build_window(self.settings)
        self._connect_run()
        self._connect_commands()
        self._connect_run_list()
        self._connect_telemetry()
        self._connect_templates()
        self._connect_window()
        self._repaint_timer = RepaintTimer(self._repaint, self)
        self._repaint_timer.start()
        self._refresh_timer = QTimer(self)
        self._refresh_timer.timeout.connect(self.engine_client.refresh_changed_runs)
        self._refresh_timer.start(REFRESH_RUNS_MS)
        self.show_message(settings_problem)
        self.window.show_welcome(False)  # until `first_found` says whether there is a run
        self.engine_client.find_first()
        self.telemetry.start()

    def open(self, run_id: str | None) -> None:
        """Show the active or ended run `run_id` from its first event; None: show no run."""
        self.run_list_controller.close_comparison()
        self.plots_controller.watch(run_id)
        self.log_controller.clear()
        self.window_status.show_info(None)
        self.window.show_welcome(run_id is None)
        self.figures.clear()
        self.banner.clear()
        self.alarms.clear_run()
        self.controls.show_info(None)
        self.window.status.clear()
        self.run_list.watch(run_id)
        self.engine_client.watch(run_id)
        self.reader.watch(run_id)

    def shut_down(self) -> None:
        """Stop the timers and threads of the window; the runs continue."""
        _log.info("the window closes")
        self._repaint_timer.stop()
        self._refresh_timer.stop()
        self.reader.watch(None)
        self.telemetry.stop()
        self.templates.stop()
        self.engine_client.cancel_resume()
        self.background.finish()

    def _build_engine_side(self, telemetry: TelemetryReader | None) -> None:
        self.background = Background(self)
        self.engine_client = EngineClient(self.background, self)
        self.reader = StoreReader(self)
        self.telemetry = telemetry or TelemetryReader(parent=self)
        self.memory_owners = MemoryOwners(self.background, self)
        self.templates = TemplateKeeper(self.background, self)

    def _build_widgets(self, theme: Theme, settings: QSettings) -> None:
        self.controls = RunControls(theme)
        self.alarms = AlarmBar(theme)
        self.devices = DeviceList()
        self.form = RunForm()
        self.chosen = ChosenRuns(settings, self)
        self.run_list = RunListView(theme)
        self.run_list_panel = RunListPanel(self.run_list, self.chosen, theme)
        self.banner = FailureBanner()
        self.figure_row = FigureRow()
        self.plots = RunPlots(theme, settings)
        self.comparison = Comparison(self.chosen, self.background, theme, settings)
        self.welcome_page = WelcomePage()
        self.log = LogView(theme)
        self.events = EventTable()
        self.log_bar = LogBar()

    def _build_window(self, settings: QSettings) -> None:
        parts = WindowParts(
            controls=self.controls,
            alarms=self.alarms,
            devices=self.devices,
            form=self.form,
            run_list=self.run_list_panel,
            banner=self.banner,
            figures=self.figure_row,
            plots=self.plots,
            comparison=self.comparison,
            welcome_page=self.welcome_page,
            log=self.log,
            events=self.events,
            log_bar=self.log_bar,
        )
        self.window = window = MainWindow(parts, settings)
        self.figures = RunFigures(self)
        self.theme_menu = ThemeMenu(self.theme, settings, window.theme_choices, self)
        self.plots_controller = PlotsController(
            self.plots, self.comparison.plots, self.reader, self.background, self
        )
        self.log_controller = LogController(self.log_bar, self.log, self.events, window)
        self.resume_dialogs = ResumeDialogs(self.engine_client, self.form, window)
        self.first_run_controller = FirstRunController(
            self.welcome_page, self.engine_client, self.form.devices, window
        )
        self.run_list_controller = RunListController(
            self.run_list, self.run_list_panel, self.comparison, self.chosen,
            self.background, self.engine_client, self.form, window,
        )  # fmt: skip
        self.window_status = WindowStatus(window, self.controls.headline, [self.figure_row])
        tray = desktop_notify(icon("waveform", self.theme.current.accent), self)
        self.notices = DesktopNotices(window, tray, self)

    def _open_first(self, run_id: str | None) -> None:
        if self.run_list.watched is None:
            self.open(run_id)
        self.engine_client.refresh_runs()

    def _connect_run(self) -> None:
        reader = self.reader
        reader.status_changed.connect(self.controls.show_info)
        reader.status_changed.connect(self.engine_client.show_status)
        reader.status_changed.connect(self.figures.show_info)
        reader.status_changed.connect(self.banner.show_info)
        reader.status_changed.connect(self.alarms.show_info)
        reader.status_changed.connect(self._show_info)
        reader.status_changed.connect(self.window_status.show_info)
        self.window_status.liveness.silence.connect(self.run_list.show_silence)
        reader.events.connect(self.log_controller.add_events)
        reader.events.connect(self.figures.add_events)
        reader.events.connect(self.banner.add_events)
        reader.events.connect(self.alarms.add_events)
        reader.points.connect(self.figures.add_points)
        reader.curve.connect(self.figures.set_points)
        reader.lines_skipped.connect(self.log.note_skipped_lines)
        reader.log_lines.connect(self.log_controller.add_output)
        reader.trouble.connect(self.show_message)
        self.figures.figure.connect(self.figure_row.set_figure)
        self.figures.metric_named.connect(self.figure_row.card("metric").set_caption)

    def _connect_commands(self) -> None:
        client, controls = self.engine_client, self.controls
        self.form.start_requested.connect(client.start)
        self.form.continue_requested.connect(client.resume)
        for requested in (self.form.start_requested, self.form.continue_requested):
            requested.connect(lambda _: self.show_message(self.tr("Starting the run…")))
        for done in (client.started, client.problems):  # often long before the message is old
            done.connect(lambda _: self.window.statusBar().clearMessage())
        controls.pause_clicked.connect(client.pause)
        controls.resume_paused_clicked.connect(client.resume_paused)
        controls.stop_clicked.connect(client.stop)
        controls.pause_and_free_clicked.connect(client.pause_and_free)
        controls.checkpoint_clicked.connect(client.save_checkpoint)
        self.banner.stop.clicked.connect(client.stop)
        controls.empty_cache_clicked.connect(client.empty_cache)
        client.started.connect(self.open)
        client.started.connect(client.refresh_runs)
        client.started.connect(self.form.run_started)
        client.problems.connect(self.form.show_problems)
        client.failed.connect(self.show_message)
        client.first_found.connect(self._open_first)
        self.form.message.connect(self.show_message)
        self.log_controller.message.connect(self.show_message)
        self.plots_controller.message.connect(self.show_message)
        # The button of the welcome page is hidden now: without this, Qt would give the keyboard
        # focus to an arbitrary widget.
        self.welcome_page.try_clicked.connect(lambda: self.run_list.setFocus())

    def _connect_run_list(self) -> None:
        resume, run_list = self.resume_dialogs, self.run_list
        self.engine_client.runs_listed.connect(self.notices.show_runs)
        self.engine_client.runs_listed.connect(self.form.show_runs)
        self.notices.ended.connect(self.show_message)
        self.run_list_controller.message.connect(self.show_message)
        self.run_list_controller.open_requested.connect(self.open)
        run_list.opened.connect(self.open)
        self.controls.resume_clicked.connect(resume.resume)
        run_list.resume_requested.connect(resume.resume)
        run_list.resume_from_older_requested.connect(resume.resume_from_older)
        run_list.continue_requested.connect(resume.continue_with_changes)
        # The watched run is the current one of the list.
        more = (run_list.resume_from_older, run_list.continue_changed)
        self.controls.resume_more.menu().addActions(more)

    def _connect_telemetry(self) -> None:
        snapshot = self.telemetry.snapshot
        # `memory_owners` gets each snapshot first: the device list and the form depend on it.
        snapshot.connect(self.memory_owners.show_snapshot)
        self.memory_owners.uses.connect(self.devices.show_uses)
        self.memory_owners.uses.connect(self.form.devices.show_uses)
        self.engine_client.runs_listed.connect(self.memory_owners.show_runs)
        self.devices.detail_wanted.connect(self.telemetry.set_detail)
        self.window.visibility_changed.connect(self.telemetry.set_watching)
        snapshot.connect(self.devices.show_snapshot)
        snapshot.connect(self.alarms.show_snapshot)
        snapshot.connect(self.form.devices.show_snapshot)
        snapshot.connect(self.first_run_controller.show_snapshot)
        snapshot.connect(self._label_devices)
        self.telemetry.stale.connect(self.devices.set_stale)

    def _connect_templates(self) -> None:
        templates, window = self.templates, self.window
        templates.status.connect(window.template_label.show_status)
        templates.status.connect(self._tick_keep_loaded)
        templates.failed.connect(self.show_message)
        templates.want(self.form.template)
        self.form.template_changed.connect(templates.want)
        self.form.entered.connect(templates.return_to_form)
        window.visibility_changed.connect(templates.set_visible)
        window.keep_loaded.triggered.connect(templates.switch)

    def _tick_keep_loaded(self, status: TemplateStatus) -> None:
        self.window.keep_loaded.setChecked(status.is_on)

    def _connect_window(self) -> None:
        window = self.window
        window.start.triggered.connect(self.form.start)
        window.stop.triggered.connect(self.controls.stop.click)
        window.checkpoint.triggered.connect(self.controls.checkpoint.click)
        window.open_recipe.triggered.connect(self.form.recipe.open_file)
        window.fit.triggered.connect(self.plots_controller.fit)
        window.reset_layout.triggered.connect(self.plots.reset_layout)
        window.reset_layout.triggered.connect(self.comparison.reset_layout)
        window.toggle_theme.triggered.connect(self.theme_menu.toggle)
        self.controls.theme_clicked.connect(self.theme_menu.toggle)
        window.pause.triggered.connect(self.controls.pause.click)
        window.empty_cache.triggered.connect(self.controls.empty_cache.click)
        window.copy_command.triggered.connect(self.form.copy_command)
        window.first_error.triggered.connect(self.log_controller.go_to_first_error)
        window.find_next.triggered.connect(self.log_controller.find_next)
        window.find_previous.triggered.connect(self.log_controller.find_previous)
        self.log_controller.log_requested.connect(window.show_log)
        # All widgets that keep colours get a new theme from here; those that paint themselves ask
        # their palette (`theme_of`).
        for themed in (
            self.controls, self.alarms, self.run_list, self.run_list_panel, self.plots,
            self.comparison, self.log,
        ):  # fmt: skip
            self.theme.changed.connect(themed.set_theme)

    def _show_info(self, info: RunInfo) -> None:
        ready, count = info.status.workers_ready, len(info.status.worker_pids)
        text = self.banner.with_device_names(info.reason) or state_sentence(info.state)
        if count and not info.state.is_over:
            text = self.tr("{ready} of {count} workers ready").format(ready=ready, count=count)
        self.window.status.setText(text)

    def _label_devices(self, snapshot: Snapshot) -> None:
        labels = device_labels(snapshot)
        names = {id: label.name for id, label in labels.items()}
        self.plots.set_device_labels(labels)
        self.figures.set_device_names(names)
        self.banner.set_device_names(names)
        self.log_controller.set_device_names(names)
        self.comparison.set_device_names(names)

    def show_message(self, sentence: str) -> None:
        """Show a sentence in the status bar for some seconds."""
        self.window.statusBar().showMessage(sentence, MESSAGE_MS)

    def _repaint(self) -> bool:
        return self.window.isVisible() and not self.window.isMinimized() and self.plots.tick()
