"""The composition root: builds the parts and the rooms of the window, and connects them.

A room is a class that builds a page with all that is behind it. Rooms need NumPy and pyqtgraph,
which take longer to import than the window to appear: so they are built after it was painted.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSettings, Qt, QTimer

from engine.runs.run_info import RunInfo
from engine.system.program import call
from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import Snapshot
from gui.bridge.background import Background
from gui.bridge.cluster_devices import ClusterDevice, ClusterDevices
from gui.bridge.doctor import Doctor
from gui.bridge.engine_client import EngineClient
from gui.bridge.files.editor import Editor
from gui.bridge.files.media_files import MediaFiles
from gui.bridge.files.recent_forms import RecentForms
from gui.bridge.files.settings_file import window_settings
from gui.bridge.machines.environments_there import EnvironmentsThere
from gui.bridge.machines.machines import Machines, place_of
from gui.bridge.memory_owners import MemoryOwners
from gui.bridge.overview_reader import OverviewReader
from gui.bridge.planning.planning import Planning
from gui.bridge.run_files import RunFiles
from gui.bridge.telemetry_reader import TelemetryReader
from gui.bridge.template_keeper import TemplateKeeper
from gui.devices.alarm_bar import AlarmBar
from gui.devices.device_list import DeviceList
from gui.doctor.doctor_dialog import DoctorDialog
from gui.exchange.controller import ExchangeController
from gui.first_run_controller import FirstRunController
from gui.log.event_table import EventTable
from gui.log.log_bar import LogBar
from gui.log.log_controller import LogController
from gui.log.log_view import LogView
from gui.machines.machine_cards import MachineCards
from gui.media.media_panel import MediaPanel
from gui.recipe_controller import RecipeController
from gui.run_form.run_form import RunForm
from gui.run_list.chosen_runs import ChosenRuns
from gui.run_list.resume_dialogs import ResumeDialogs
from gui.run_list.run_list_panel import RunListPanel
from gui.run_list.run_list_view import RunListView
from gui.run_view.failure_banner import FailureBanner
from gui.run_view.progress_text import status_line
from gui.run_view.run_actions import RunActions
from gui.run_view.run_controls import RunControls
from gui.run_view.script_bar import ScriptBar
from gui.run_view.welcome_page import WelcomePage
from gui.style.device_labels import device_labels
from gui.style.theme import Theme, ThemeController, icon
from gui.widgets.figure_card import FigureRow
from gui.window.application import application, collect_garbage, has_display
from gui.window.desktop_notices import DesktopNotices, desktop_notify
from gui.window.editor_dialog import ask_for_editor
from gui.window.main_window import MainWindow, WindowParts
from gui.window.theme_menu import ThemeMenu, restore_theme
from gui.window.window_status import WindowStatus

if TYPE_CHECKING:
    from gui.compare.parting import Parting
    from gui.machines.controller import MachinesController
    from gui.overview.panel import OverviewPanel
    from gui.planning.controller import PlanningController
    from gui.runs_table.controller import RunsController
    from gui.shown_run import ShownRun
    from gui.step.controller import StepController
    from gui.sweeps.controller import SweepsController

_log = logging.getLogger(__name__)

NO_DISPLAY = 2
"""Exit code when there is no display."""

_SHOWN_RUN = "window/run"
"""Key of the settings: the run that was shown last."""

REFRESH_RUNS_MS = 2000
MESSAGE_MS = 8000


def run(argv: Sequence[str], notice: str = "", run_id: str = "") -> int:
    """Open the window; return the exit code when it is closed. `argv[0]` is the program.

    `notice` is a sentence for the user, and `run_id` the run that is shown first; both may be
    empty.
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
    app = AppController(ThemeController(qt_app), is_complete=False)
    # Queued: it must not begin before the whole window is on the screen.
    app.window.first_painted.connect(app.complete, Qt.ConnectionType.QueuedConnection)
    # Not in AppController: pictures and tests open windows that load no framework.
    app.window.first_painted.connect(app.templates.begin)
    app.window.first_painted.connect(app.doctor.look)
    qt_app.aboutToQuit.connect(app.shut_down)
    sys.excepthook = app.report_error
    app.window.show_on_screen()
    app.show_message(notice)
    if run_id:
        shown_first = partial(app.open, run_id)
        app.window.first_painted.connect(shown_first, Qt.ConnectionType.QueuedConnection)
    return qt_app.exec()


@dataclass(frozen=True, kw_only=True)
class Rooms:
    """The pages of the window, and what is behind them."""

    runs: RunsController
    run: ShownRun
    overview: OverviewPanel
    race: PlanningController
    sweeps: SweepsController
    machines: MachinesController
    step: StepController
    parting: Parting
    """The controller of the comparison, which is on the page of all runs."""


class AppController(QObject):
    """Owns the window, its widgets and their controllers, and connects them with the engine."""

    def __init__(
        self,
        theme: ThemeController,
        telemetry: TelemetryReader | None = None,
        *,
        is_complete: bool = True,
    ) -> None:
        """Without `is_complete`, the rooms are missing until `complete`."""
        super().__init__()
        self._rooms: Rooms | None = None
        self.theme = theme
        self.settings, settings_problem = window_settings()
        restore_theme(theme, self.settings)
        self._build_engine_side(telemetry)
        with theme.style_later():
            self._build_widgets(theme.current, self.settings)
            self._build_window(self.settings)
        self._connect_commands()
        self._connect_run_list()
        self._connect_telemetry()
        self._connect_templates()
        self._connect_window()
        self._refresh_timer = QTimer(self)
        self._refresh_timer.timeout.connect(self.engine_client.refresh_changed_runs)
        self.show_message(settings_problem)
        self.window.show_welcome(False)  # until `first_found` says whether there is a run
        self.controls.headline.set_reading(True)
        if is_complete:
            self.complete()
        self.telemetry.start()

    @property
    def rooms(self) -> Rooms:
        """The rooms, which alone come to life later: see `complete`."""
        assert self._rooms is not None, "the window is not complete"
        return self._rooms

    def complete(self) -> None:
        """Build the rooms, and look for runs."""
        _log.info("the window is painted")
        collect_garbage(self.theme.app)
        self._rooms = rooms = self._built_rooms()
        self._connect_rooms(rooms)
        self._connect_run(rooms)
        shown = str(self.settings.value(_SHOWN_RUN) or "")
        self.engine_client.find_first(shown)
        self._refresh_timer.start(REFRESH_RUNS_MS)
        self.machines.begin()
        if place_of(shown)[0] and self.machines.has_run(shown):
            rooms.runs.awaited = shown
        _log.info("the window is complete")

    def open(self, run_id: str | None) -> None:
        """Show the active or ended run `run_id` from its first event; None: show no run."""
        rooms = self.rooms
        self.settings.setValue(_SHOWN_RUN, rooms.runs.awaited or run_id or "")
        rooms.runs.close_comparison()
        self.log_controller.clear()
        self.window_status.show_info(None)
        self.window.show_welcome(run_id is None)
        for part in (rooms.run.figures, self.banner, self.script_bar, self.window.status):
            part.clear()
        self.alarms.clear_run()
        self.controls.headline.set_reading(run_id is not None)
        self.controls.show_info(None)
        for follower in (
            rooms.run.controller, self.media, rooms.overview, self.run_list, self.engine_client,
            rooms.run.reader,
        ):  # fmt: skip
            follower.watch(run_id)

    def _open_chosen(self, run_id: str) -> None:
        """Show the run that the user has chosen or started, and wait for no other one."""
        self.rooms.runs.awaited = ""
        self.open(run_id)

    def _open_existing(self, run_id: str) -> None:
        """Show a run that is named elsewhere, and may have been deleted since."""
        if self.engine_client.has_run(run_id):
            self._open_chosen(run_id)
        else:
            self.show_message(f"Run {run_id} was deleted.")

    def _open_step(self, info: RunInfo, step: int) -> None:
        """Open a run, and look into one of its steps."""
        self._open_existing(info.id)
        self.rooms.step.open_step(step, info)

    def shut_down(self) -> None:
        """Stop the timers and threads of the window; the runs continue."""
        _log.info("the window closes")
        self.form.remember()
        self.recipe_controller.recipe_check.stop()
        self.form.environment.maker.stop()
        self._refresh_timer.stop()
        if self._rooms is not None:
            self._rooms.run.stop()
            self._rooms.sweeps.shut_down()
        self.telemetry.stop()
        self.templates.stop()
        self.doctor.shut_down()
        self.planning.shut_down()
        self.engine_client.cancel_resume()
        self.exchange.shut_down()
        self.machines.shut_down()  # what waits for another machine ends
        self.cluster_devices.close()
        self.background.finish()

    def _build_engine_side(self, telemetry: TelemetryReader | None) -> None:
        self.machines = Machines(self.settings, self)
        self.background = Background(self, self.machines)
        self.engine_client = EngineClient(self.background, self)
        self.telemetry = telemetry or TelemetryReader(parent=self)
        self.cluster_devices = ClusterDevices(parent=self)
        self.memory_owners = MemoryOwners(self.background, self)
        self.templates = TemplateKeeper(self.background, self)
        self.doctor = Doctor(self.background, self)
        self.planning = Planning(self.machines, self)
        self.media_files = MediaFiles(self.background, self)
        self.run_files = RunFiles(self.background, self)
        self.editor = Editor(self.settings, self.background, self)

    def _build_widgets(self, theme: Theme, settings: QSettings) -> None:
        self.controls = RunControls(theme)
        self.alarms = AlarmBar(theme)
        self.devices = DeviceList()
        self.machine_cards = MachineCards(settings)
        self.form = RunForm(
            recent=RecentForms(settings),
            environments_there=EnvironmentsThere(self.background, self),
        )
        self.chosen = ChosenRuns(settings, self)
        self.run_list = RunListView(theme)
        self.run_list_panel = RunListPanel(self.run_list, self.chosen, theme)
        self.banner = FailureBanner()
        self.script_bar = ScriptBar()
        self.figure_row = FigureRow()
        self.welcome_page = WelcomePage()
        self.log = LogView(theme)
        self.events = EventTable()
        self.log_bar = LogBar()
        self.media = MediaPanel(self.media_files)

    def _build_window(self, settings: QSettings) -> None:
        parts = WindowParts(
            controls=self.controls,
            alarms=self.alarms,
            devices=self.devices,
            machines=self.machine_cards,
            form=self.form,
            run_list=self.run_list_panel,
            banner=self.banner,
            script_bar=self.script_bar,
            figures=self.figure_row,
            welcome_page=self.welcome_page,
            log=self.log,
            events=self.events,
            log_bar=self.log_bar,
            media=self.media,
            media_bar=self.media.bar,
        )
        self.window = window = MainWindow(parts, settings)
        window.keeps_open = self.form.environment.asks_before_close
        self.doctor_dialog = DoctorDialog(self.doctor, window)
        self.theme_menu = ThemeMenu(self.theme, settings, window.theme_choices, self)
        self.log_controller = LogController(self.log_bar, self.log, self.events, window)
        self.resume_dialogs = ResumeDialogs(self.engine_client, self.form, window)
        self.first_run_controller = FirstRunController(
            self.welcome_page, self.engine_client, self.form.devices, window
        )
        self.recipe_controller = RecipeController(
            self.form, self.background, self.editor.open, window
        )
        self.window_status = WindowStatus(
            window, self.controls.headline, [self.figure_row], self.machines.unheard_seconds
        )
        tray = desktop_notify(icon("waveform", self.theme.current.accent), self)
        self.notices = DesktopNotices(window, tray, self)
        self.exchange = ExchangeController(self.background, settings, window)

    def _open_first(self, run_id: str | None) -> None:
        if self.run_list.watched is None:
            page = self.window.page
            self.open(run_id)
            self.window.show_page(page)  # the user may have chosen one by now
        self.engine_client.refresh_runs()

    def _built_rooms(self) -> Rooms:
        from gui.compare.parting import Parting
        from gui.machines.controller import MachinesController
        from gui.overview.panel import OverviewPanel
        from gui.planning.controller import PlanningController
        from gui.runs_table.controller import RunsController
        from gui.shown_run import ShownRun
        from gui.step.controller import StepController
        from gui.sweeps.controller import SweepsController

        background, client, form = self.background, self.engine_client, self.form
        theme, settings, window = self.theme, self.settings, self.window
        runs = RunsController(
            self.run_list, self.run_list_panel, self.chosen,
            background, client, form, theme, settings, window,
        )  # fmt: skip
        overview = OverviewPanel(OverviewReader(background, self))
        window.parts.overview.fill(overview)
        window.parts.overview_bar.fill(overview.bar)
        return Rooms(
            runs=runs,
            run=ShownRun(window, runs.comparison.plots, background, theme, settings),
            overview=overview,
            race=PlanningController(self.planning, background, form, window),
            sweeps=SweepsController(form, client.recipes, background, theme, settings, window),
            machines=MachinesController(
                self.machines, self.cluster_devices, self.memory_owners, self.machine_cards, window
            ),
            step=StepController(self.planning, window),
            parting=Parting(self.planning, runs.comparison),
        )

    def _connect_rooms(self, rooms: Rooms) -> None:
        for room in (rooms.runs, rooms.run.controller, rooms.overview, rooms.race, rooms.sweeps,
                     rooms.machines):  # fmt: skip
            room.message.connect(self.show_message)
        runs, client = rooms.runs, self.engine_client
        runs.export_requested.connect(self.exchange.export)
        runs.checkpoint_requested.connect(self.exchange.copy_checkpoint)
        runs.page.import_wanted.connect(self.exchange.import_runs)
        runs.open_requested.connect(self.open)
        self.controls.run_again_clicked.connect(runs.run_again)
        self.controls.resume_more.menu().addAction(runs.actions.again)
        client.runs_listed.connect(rooms.race.show_runs)
        self.telemetry.snapshot.connect(partial(rooms.race.show_snapshot, ""))
        self.machines.snapshot.connect(rooms.race.show_snapshot)
        client.runs_listed.connect(rooms.sweeps.show_runs)
        client.runs_listed.connect(rooms.overview.show_runs)
        rooms.overview.run_wanted.connect(self._open_existing)
        rooms.sweeps.page.opened.connect(self._open_existing)
        rooms.machines.doctor_wanted.connect(self._show_doctor_of)
        rooms.overview.notes_written.connect(self.run_files.write_notes)
        self.run_files.changed.connect(client.refresh_runs)
        self.run_files.failed.connect(self.show_message)
        self.telemetry.snapshot.connect(self._label_devices)

    def _connect_run(self, rooms: Rooms) -> None:
        reader, figures = rooms.run.reader, rooms.run.figures
        reader.status_changed.connect(self.engine_client.show_status)
        reader.status_changed.connect(self.run_list.show_status)
        for part in (
            self.controls, figures, rooms.overview, self.banner, self.script_bar, self.alarms,
            self.window_status,
        ):  # fmt: skip
            reader.status_changed.connect(part.show_info)
        reader.status_changed.connect(self._show_info)
        reader.status_changed.connect(rooms.step.show_info)
        rooms.parting.step_wanted.connect(self._open_step)
        rooms.step.fork_wanted.connect(self.resume_dialogs.fork)
        rooms.step.fork_wanted.connect(lambda *_: self.window.show_form())
        rooms.run.plots.step_chosen.connect(rooms.step.open_step)
        self.script_bar.facts_changed.connect(self.controls.show_script)
        self.window_status.liveness.silence.connect(self.run_list.show_silence)
        for reported in (
            self.log_controller, figures, self.media, rooms.overview, self.banner, self.script_bar,
            self.alarms,
        ):  # fmt: skip
            reader.events.connect(reported.add_events)
        reader.points.connect(figures.add_points)
        reader.curve.connect(figures.set_points)
        reader.lines_skipped.connect(self.log.note_skipped_lines)
        reader.log_lines.connect(self.log_controller.add_output)
        reader.trouble.connect(self.show_message)
        figures.figure.connect(self.figure_row.set_figure)
        figures.metric_named.connect(self.figure_row.card("metric").set_caption)

    def _connect_commands(self) -> None:
        client, controls = self.engine_client, self.controls
        self.form.start_requested.connect(
            lambda spec, tags: client.start(spec, tags, self.form.machine.machine)
        )
        self.form.continue_requested.connect(client.resume)
        for requested in (self.form.start_requested, self.form.continue_requested):
            requested.connect(lambda *_: self.show_message("Starting the run…"))
        for done in (client.started, client.problems):  # often long before the message is old
            done.connect(lambda _: self.window.statusBar().clearMessage())
        controls.pause_clicked.connect(client.pause)
        controls.resume_paused_clicked.connect(client.resume_paused)
        controls.stop_clicked.connect(client.stop)
        controls.pause_and_free_clicked.connect(client.pause_and_free)
        controls.checkpoint_clicked.connect(client.save_checkpoint)
        self.banner.stop.clicked.connect(client.stop)
        for panel in (self.banner, self.form):
            panel.edit_clicked.connect(self.editor.open)
        self.editor.failed.connect(self.show_message)
        controls.empty_cache_clicked.connect(client.empty_cache)
        client.started.connect(self._open_chosen)
        client.started.connect(client.refresh_runs)
        client.started.connect(self.form.run_started)
        client.problems.connect(self.form.show_problems)
        client.problems.connect(lambda _: self.window.show_form())
        client.failed.connect(self.show_message)
        client.first_found.connect(self._open_first)
        self.form.message.connect(self.show_message)
        self.log_controller.message.connect(self.show_message)
        # The button of the welcome page is hidden now: without this, Qt would give the keyboard
        # focus to an arbitrary widget.
        self.welcome_page.try_clicked.connect(lambda: self.run_list.setFocus())

    def _connect_run_list(self) -> None:
        resume, run_list = self.resume_dialogs, self.run_list
        self.engine_client.runs_listed.connect(self.notices.show_runs)
        self.engine_client.runs_listed.connect(self.form.show_runs)
        self.notices.ended.connect(self.show_message)
        run_list.opened.connect(self._open_chosen)
        self.controls.resume_clicked.connect(resume.resume)
        run_list.resume_requested.connect(resume.resume)
        run_list.resume_from_older_requested.connect(resume.resume_from_older)
        run_list.continue_requested.connect(resume.continue_with_changes)
        # The watched run is the current one of the list.
        more = (run_list.resume_from_older, run_list.continue_changed)
        self.controls.resume_more.menu().addActions(more)
        self.controls.run_again_more.menu().addActions(
            (run_list.continue_changed, run_list.copy_settings)
        )

    def _connect_telemetry(self) -> None:
        snapshot = self.telemetry.snapshot
        # `memory_owners` gets each snapshot first: the device list and the form depend on it.
        snapshot.connect(self.memory_owners.show_snapshot)
        self.memory_owners.uses.connect(self.devices.show_uses)
        self.memory_owners.uses.connect(self._offer_uses)
        self.engine_client.runs_listed.connect(self.memory_owners.show_runs)
        self.devices.detail_wanted.connect(self.telemetry.set_detail)
        self.window.visibility_changed.connect(self.telemetry.set_watching)
        snapshot.connect(self.devices.show_snapshot)
        snapshot.connect(self.alarms.show_snapshot)
        snapshot.connect(partial(self._offer_devices, ""))
        self.machines.snapshot.connect(self._offer_devices)
        self.cluster_devices.changed.connect(self._offer_cluster)
        self.window.visibility_changed.connect(self.cluster_devices.set_visible)
        self.machines.status_changed.connect(lambda *_: self._offer_machines())
        self.form.entered.connect(self.machines.read_again)
        self.window.visibility_changed.connect(self.machines.set_watching)
        snapshot.connect(self.first_run_controller.show_snapshot)
        self.telemetry.stale.connect(self.devices.set_stale)

    def _connect_templates(self) -> None:
        templates, window = self.templates, self.window
        templates.switched.connect(window.keep_loaded.setChecked)
        templates.failed.connect(self.show_message)
        templates.want(self.form.template)
        self.form.template_changed.connect(templates.want)
        self.form.entered.connect(templates.return_to_form)
        window.keep_loaded.triggered.connect(templates.switch)

    def _connect_window(self) -> None:
        window = self.window
        window.start.triggered.connect(self.form.start)
        controls = self.controls
        buttons = {
            window.pause: controls.pause,
            window.stop: controls.stop,
            window.checkpoint: controls.checkpoint,
            window.empty_cache: controls.empty_cache,
        }
        RunActions(controls, buttons, window.run_menu).refused.connect(self.show_message)
        window.open_recipe.triggered.connect(self.form.open_file)
        window.new_recipe.triggered.connect(self.recipe_controller.new_recipe)
        window.check_recipe.triggered.connect(self.recipe_controller.check)
        self.recipe_controller.recipe_check.running.connect(window.show_checking)
        self.recipe_controller.message.connect(self.show_message)
        window.doctor.triggered.connect(self._show_doctor)
        self.devices.doctor_wanted.connect(lambda: self._show_doctor_of(""))
        self.doctor.odd.connect(self.devices.show_odd)
        window.choose_editor.triggered.connect(lambda: ask_for_editor(self.editor, window))
        window.toggle_theme.triggered.connect(self.theme_menu.toggle)
        self.controls.theme_clicked.connect(self.theme_menu.toggle)
        window.export_run.triggered.connect(self._export_watched)
        window.open_case.triggered.connect(lambda: self.exchange.open_case())
        for save in (window.save_case.triggered, self.banner.save.clicked):
            save.connect(lambda: self.exchange.save_case(self.run_list.watched or ""))
        for action in (window.import_runs, self.run_list_panel.import_runs):
            action.triggered.connect(lambda: self.exchange.import_runs())
        self.exchange.imported.connect(self.engine_client.refresh_runs)
        self.exchange.open_wanted.connect(self._open_chosen)
        self.exchange.message.connect(self.show_message)
        window.copy_command.triggered.connect(self.form.copy_command)
        window.first_error.triggered.connect(self.log_controller.go_to_first_error)
        window.find_next.triggered.connect(self.log_controller.find_next)
        window.find_previous.triggered.connect(self.log_controller.find_previous)
        self.log_controller.log_requested.connect(window.show_log)
        # All widgets that keep colours get a new theme from here; those that paint themselves ask
        # their palette (`theme_of`).
        for themed in (
            self.controls, self.alarms, self.run_list, self.run_list_panel, self.log,
        ):  # fmt: skip
            self.theme.changed.connect(themed.set_theme)

    def _offer_devices(self, machine: str, snapshot: Snapshot) -> None:
        """Offer the devices of the machine that is chosen in the form."""
        if machine == self.form.machine.machine:
            self.form.devices.show_snapshot(snapshot)

    def _offer_cluster(self, devices: tuple[ClusterDevice, ...]) -> None:
        if not self.form.machine.machine:
            is_member = self.cluster_devices.status.time > 0
            self.form.devices.show_cluster(devices, is_member=is_member)

    def _offer_uses(self, uses: dict[str, MemoryUse]) -> None:
        if not self.form.machine.machine:
            self.form.devices.show_uses(uses)

    def _offer_machines(self) -> None:
        machines = self.machines
        names = [each.name for each in machines.machines if machines.status(each.name)]
        connections = {name: machines.is_connected(name) for name in names}
        self.form.offer_machines(connections)
        self.doctor_dialog.offer_machines(connections)

    def _show_info(self, info: RunInfo) -> None:
        self.window.status.setText(self.banner.with_device_names(status_line(info)))

    def _export_watched(self) -> None:
        found = [info for info in self.run_list_panel.runs() if info.id == self.run_list.watched]
        self.exchange.export(found)

    def _show_doctor_of(self, machine: str) -> None:
        self.doctor_dialog.machine.choose(machine)
        self._show_doctor()

    def _show_doctor(self) -> None:
        self.doctor_dialog.show()
        self.doctor_dialog.raise_()
        self.doctor_dialog.activateWindow()

    def _label_devices(self, snapshot: Snapshot) -> None:
        labels = device_labels(snapshot)
        names = {id: label.name for id, label in labels.items()}
        rooms = self.rooms
        rooms.run.plots.set_device_labels(labels)
        for part in (
            rooms.run.figures, self.banner, self.log_controller, rooms.overview,
            rooms.runs.comparison, rooms.runs.page,
        ):  # fmt: skip
            part.set_device_names(names)

    def report_error(
        self, kind: type[BaseException], error: BaseException, frames: TracebackType | None
    ) -> None:
        """Say in the window that it has failed itself: not every user sees its terminal."""
        sys.__excepthook__(kind, error, frames)
        _log.error("an error of the window", exc_info=(kind, error, frames))
        text = (
            f"The window has failed at this ({kind.__name__}). Its log has the details; runs "
            "go on. If something does not answer any more, open the window again."
        )
        self.show_message(text)

    def show_message(self, sentence: str) -> None:
        """Show a sentence in the status bar for some seconds."""
        self.window.statusBar().showMessage(sentence, MESSAGE_MS)
