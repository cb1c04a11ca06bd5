"""The composition root of the window: everything is built and connected here, and only here."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer

from engine.client import RunInfo
from engine.system import paths
from engine.system.program import call
from engine.telemetry.snapshot import Snapshot
from gui.bridge.background import Background
from gui.bridge.memory_owners import DeviceOwners
from gui.bridge.run_controller import RunController
from gui.bridge.store_reader import StoreReader
from gui.bridge.telemetry_reader import TelemetryReader
from gui.devices.alarm_bar import AlarmBar
from gui.devices.device_list import DeviceList
from gui.first_run_controller import FirstRunController
from gui.log.event_table import EventTable
from gui.log.log_bar import LogBar
from gui.log.log_controller import LogController
from gui.log.log_view import LogView
from gui.plots.panel.repaint_timer import Frames
from gui.plots.panel.run_plots import PlotGrid
from gui.plots_controller import PlotsController
from gui.run_form.run_form import RunForm
from gui.run_list.resume_controller import ResumeController
from gui.run_list.run_list_view import RunListView
from gui.run_list_controller import RunListController
from gui.run_view.failure_banner import FailureBanner
from gui.run_view.run_controls import RunControls
from gui.run_view.run_figures import RunFigures
from gui.run_view.welcome_page import FirstStart
from gui.style import theme as look
from gui.style.state_style import state_sentence
from gui.widgets.figure_card import FigureRow
from gui.window.application import application, has_display
from gui.window.desktop_notices import Notices, desktop_notify
from gui.window.main_window import MainWindow, Parts
from gui.window.settings_file import open_settings
from gui.window.tab_order import TabOrder
from gui.window.theme_menu import ThemeMenu
from gui.window.window_status import Attention

_log = logging.getLogger(__name__)

NO_DISPLAY = 2
"""Exit code where there is no screen to open a window on."""

REFRESH_RUNS_MS = 2000
NOTE_MS = 8000


def run(argv: Sequence[str]) -> int:
    """Open the window; return the exit code when it is closed. `argv[0]` is the program."""
    if not has_display(sys.platform, os.environ):
        print(
            "There is no display to open a window on. Train from the command line instead: "
            f"see `{call('train --help')}`.",
            file=sys.stderr,
        )
        return NO_DISPLAY
    qt_app = application(argv)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C in the terminal; the runs go on
    app = AppController(look.ThemeController(qt_app))
    qt_app.aboutToQuit.connect(app.shut_down)
    app.window.show()
    _log.info("the window is open")
    return qt_app.exec()


class AppController(QObject):
    """The window with everything behind it."""

    def __init__(
        self, theme: look.ThemeController, telemetry: TelemetryReader | None = None
    ) -> None:
        super().__init__()
        paths.home().mkdir(parents=True, exist_ok=True, mode=0o700)
        self.settings, trouble = open_settings(paths.home() / "window.ini")
        self.theme_menu = ThemeMenu(theme, self.settings, self)
        now = theme.current
        self.theme = theme
        self.background = Background(self)
        self.controller = RunController(self.background, self)
        self.reader = StoreReader(self)
        self.telemetry = telemetry or TelemetryReader(parent=self)
        self.owners = DeviceOwners(self.background, self)
        self.controls = RunControls(now)
        self.alarms = AlarmBar(now)
        self.devices = DeviceList()
        self.form = RunForm()
        self.history = RunListView(now)
        self.runs = RunListController(self.history, theme, self.settings)
        self.banner = FailureBanner()
        self.row = FigureRow()
        self.figures = RunFigures(self)
        self.plots = PlotGrid(now, self.settings)
        self.plots_controller = PlotsController(
            self.plots, self.runs.comparison.plots, self.reader, self.background, self
        )
        self.log = LogView(now)
        self.events = EventTable()
        self.log_bar = LogBar()
        self.first_start = FirstStart()
        parts = Parts(
            self.controls, self.alarms, self.devices, self.form, self.runs.panel, self.banner,
            self.row, self.plots, self.log, self.events, self.log_bar, self.first_start,
            self.runs.comparison,
        )  # fmt: skip
        self.window = MainWindow(parts, self.settings)
        TabOrder(self.window, (*parts[:8], *parts[11:], self.log_bar, self.log, self.events))
        self.resume_controller = ResumeController(self.controller, self.form, self.window)
        self.runs.furnish(self.background, self.controller, self.form, self.window)
        self.log_controller = LogController(self.log_bar, self.log, self.events, self.window)
        page = self.first_start
        self.first_run = FirstRunController(page, self.controller, self.form.devices, self.window)
        self.attention = Attention(self.window, self.controls, [self.row])
        tray = desktop_notify(look.icon("waveform", now.accent), self)
        self.notices = Notices(self.window, tray, self)
        self._connect_run()
        self._connect_commands()
        self._connect_telemetry()
        self._connect_window()
        self._frames = Frames(self._draw, self)
        self._frames.start()
        self._refresh = QTimer(self)
        self._refresh.timeout.connect(self.controller.refresh_changed_runs)
        self._refresh.start(REFRESH_RUNS_MS)
        self._say(trouble)
        self.window.show_welcome(False)  # until it is known that there is no run
        self.controller.find_first()
        self.telemetry.start()

    def open(self, run_id: str | None) -> None:
        """Show the run `run_id` from its beginning: live, re-attached or over, all the same."""
        self.runs.close_comparison()
        self.plots_controller.watch(run_id)
        self.log_controller.clear()
        self.attention.show_info(None)
        self.window.show_welcome(run_id is None)
        self.figures.clear()
        self.banner.clear()
        self.alarms.clear_run()
        self.controls.show_info(None)
        self.window.status.clear()
        self.history.watch(run_id)
        self.controller.watch(run_id)
        self.reader.watch(run_id)

    def shut_down(self) -> None:
        """Leave the runs alone, and end everything that belongs to the window."""
        _log.info("the window closes")
        self._frames.stop()
        self._refresh.stop()
        self.reader.watch(None)
        self.telemetry.stop()
        self.background.finish()

    def _open_first(self, run_id: str | None) -> None:
        if self.history.watched is None:
            self.open(run_id)
        self.controller.refresh_runs()

    def _connect_run(self) -> None:
        reader = self.reader
        reader.status_changed.connect(self.controls.show_info)
        reader.status_changed.connect(self.controller.show_status)
        reader.status_changed.connect(self.figures.show_info)
        reader.status_changed.connect(self.banner.show_info)
        reader.status_changed.connect(self.alarms.show_info)
        reader.status_changed.connect(self._show_info)
        reader.status_changed.connect(self.attention.show_info)
        self.attention.liveness.silence.connect(self.history.show_silence)
        reader.events.connect(self.log_controller.take_events)
        reader.events.connect(self.figures.take_events)
        reader.events.connect(self.banner.take_events)
        reader.events.connect(self.alarms.take_events)
        reader.points.connect(self.figures.take_points)
        reader.curve.connect(self.figures.take_curve)
        reader.log_cut.connect(self.log.miss_lines)
        reader.log_lines.connect(self.log_controller.take_output)
        reader.trouble.connect(self._say)
        self.figures.figure.connect(self.row.set_figure)
        self.figures.metric_named.connect(self.row.card("metric").set_caption)

    def _connect_commands(self) -> None:
        controller, controls = self.controller, self.controls
        self.form.start_requested.connect(controller.start)
        self.form.continue_requested.connect(controller.resume)
        for asked in (self.form.start_requested, self.form.continue_requested):
            asked.connect(lambda _: self._say(self.tr("Starting the run…")))
        controls.pause_clicked.connect(controller.pause)
        controls.resume_paused_clicked.connect(controller.resume_paused)
        controls.stop_clicked.connect(controller.stop)
        controls.pause_and_free_clicked.connect(controller.pause_and_free)
        controls.checkpoint_clicked.connect(controller.save_checkpoint)
        self.banner.stop.clicked.connect(controller.stop)
        controls.empty_cache_clicked.connect(controller.empty_cache)
        controller.started.connect(self._started)
        controller.started.connect(self.form.has_started)
        controller.problems.connect(self.form.show_problems)
        controller.failed.connect(self._say)
        controller.first_found.connect(self._open_first)
        controller.runs_listed.connect(self.notices.show_runs)
        controller.runs_listed.connect(self.form.show_runs)
        self.notices.ended.connect(self._say)
        self.form.said.connect(self._say)
        self.log_controller.said.connect(self._say)
        self.plots_controller.said.connect(self._say)
        self.runs.said.connect(self._say)
        self.runs.wanted.connect(self.open)
        self.history.opened.connect(self.open)
        # Its button is no longer there for the keys, and they may not fall on just anything.
        self.first_start.try_clicked.connect(lambda: self.history.setFocus())
        self._connect_resume()

    def _connect_resume(self) -> None:
        desk, history = self.resume_controller, self.history
        self.controls.resume_clicked.connect(desk.resume)
        history.resume_requested.connect(desk.resume)
        history.resume_from_older_requested.connect(desk.resume_from_older)
        history.continue_requested.connect(desk.continue_with_changes)
        # The watched run is the current one of the list.
        more = (history.resume_from_older, history.continue_changed)
        self.controls.resume_more.menu().addActions(more)

    def _connect_telemetry(self) -> None:
        # Who uses the memory comes first: what is shown and offered goes by it.
        self.telemetry.snapshot.connect(self.owners.show_snapshot)
        self.owners.uses.connect(self.devices.show_uses)
        self.owners.uses.connect(self.form.devices.show_uses)
        self.controller.runs_listed.connect(self.owners.show_runs)
        self.devices.detail_wanted.connect(self.telemetry.set_detail)
        self.window.watched.connect(self.telemetry.set_watching)
        self.telemetry.snapshot.connect(self.devices.show_snapshot)
        self.telemetry.snapshot.connect(self.alarms.take_snapshot)
        self.telemetry.snapshot.connect(self.form.show_snapshot)
        self.telemetry.snapshot.connect(self.first_run.show_snapshot)
        self.telemetry.snapshot.connect(self._label_devices)
        self.telemetry.stale.connect(self.devices.set_stale)

    def _connect_window(self) -> None:
        window = self.window
        window.start.triggered.connect(self.form.start)
        window.stop.triggered.connect(self.controls.stop.click)
        window.checkpoint.triggered.connect(self.controls.checkpoint.click)
        window.open_recipe.triggered.connect(self.form.open_recipe)
        window.fit.triggered.connect(self.plots_controller.fit)
        window.reset_layout.triggered.connect(self.plots.reset_layout)
        window.reset_layout.triggered.connect(self.runs.comparison.reset_layout)
        window.toggle_theme.triggered.connect(self.theme_menu.toggle)
        self.controls.theme_clicked.connect(self.theme_menu.toggle)
        self.theme_menu.furnish(window.theme_choices)
        window.pause.triggered.connect(self.controls.pause.click)
        window.empty_cache.triggered.connect(self.controls.empty_cache.click)
        window.copy_command.triggered.connect(self.form.copy_command)
        window.first_error.triggered.connect(self.log_controller.go_to_first_error)
        window.find_next.triggered.connect(self.log_controller.find_next)
        window.find_previous.triggered.connect(self.log_controller.find_previous)
        self.log_controller.log_wanted.connect(window.show_log)
        self.theme.changed.connect(self._dress)

    def _started(self, run_id: str) -> None:
        self.open(run_id)
        self.controller.refresh_runs()

    def _show_info(self, info: RunInfo) -> None:
        ready, count = info.status.workers_ready, len(info.status.worker_pids)
        text = self.banner.spoken(info.reason) or state_sentence(info.state)
        if count and not info.state.is_over:
            text = self.tr("{ready} of {count} workers ready").format(ready=ready, count=count)
        self.window.status.setText(text)

    def _label_devices(self, snapshot: Snapshot) -> None:
        gpu = self.tr("GPU {label}")
        labels = {
            each.id: gpu.format(label=each.label) if each.kind == "gpu" else each.label
            for each in snapshot.devices
        }
        self.plots.set_device_labels(labels)
        self.figures.set_device_labels(labels)
        self.banner.set_device_labels(labels)
        self.log_controller.set_device_labels(labels)
        self.runs.comparison.set_device_labels(labels)

    def _say(self, sentence: str) -> None:
        self.window.statusBar().showMessage(sentence, NOTE_MS)

    def _dress(self, theme: look.Theme) -> None:
        self.controls.set_theme(theme)
        self.alarms.set_theme(theme)
        self.plots.set_theme(theme)
        self.log.set_theme(theme)

    def _draw(self) -> bool:
        return self.window.isVisible() and not self.window.isMinimized() and self.plots.tick()
