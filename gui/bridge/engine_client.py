"""Runs, here and on other machines: started, resumed, commanded and listed in the background."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from engine import client
from engine.client import CannotStart, CommandFailed, NoSuchRun, RunInfo
from engine.interface.values import id_of
from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import RecipeVersion
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.device_queue import CannotMoveRun, Move
from engine.runs.run_index import RunIndex, newest_active
from engine.runs.run_info import try_get_run
from engine.runs.run_state import RunState
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background, Reading
from gui.bridge.files.run_recipes import RunRecipes
from gui.bridge.machines.machines import place_of
from gui.bridge.run_commands import RunCommands

_log = logging.getLogger(__name__)


PROGRESS_SECONDS = 0.1
"""Time between two signals of the progress of a verification."""


class ResumeRequest(NamedTuple):
    """A request to continue a run that is over."""

    run_id: str
    checkpoint: Path | None = None
    """None: the newest one; without any, from the beginning."""

    spec: RunSpec | None = None
    """The settings of the next attempt; None: unchanged."""

    as_new: bool = False
    """Whether a new run continues from the checkpoint, and this run is not changed."""

    recipe: RecipeVersion | None = None
    """Which recipe the run goes on with if it has changed; None: the user must be asked."""


class _Cancelled(Exception):
    """The user, or the end of the window, has cancelled the verification of a checkpoint."""


class EngineClient(QObject):
    """Starts runs, sends commands to the watched run and lists all runs; shows nothing itself."""

    started = Signal(str)
    """Id of a run that has been started or resumed."""

    problems = Signal(list)
    """list[engine.spec.validation.Problem]: why a run could not be started."""

    resume_refused = Signal(str, str)
    """Id of a run, and sentences why it cannot be resumed."""

    checkpoint_unusable = Signal(object, str, object)
    """The ResumeRequest that failed, the name of the damaged checkpoint, and the Path of the newest
    intact one before it."""

    verifying = Signal(str, object, object)
    """Id of a run that resumes; bytes of its checkpoint that have been verified, and their
    total; every PROGRESS_SECONDS."""

    _verified = Signal(str, object, object)
    """`verifying`, as another thread emits it."""

    resume_ended = Signal()
    """No checkpoint is verified any more: the run was resumed, or not."""

    recipe_changed = Signal(object, str)
    """A ResumeRequest that does not say which recipe goes on, and in what the recipe has changed,
    such as `mine.py: 3 lines changed`."""

    checkpoints_listed = Signal(object, list)
    """RunInfo and list[CheckpointInfo], oldest first: the answer to `list_checkpoints`."""

    failed = Signal(str)
    """A sentence: what could not be done, and why."""

    first_found = Signal(object)
    """Id of the run that the window should show when it opens, or None: the answer to
    `find_first`."""

    runs_listed = Signal(list)
    """list[RunInfo], newest first: the answer to `refresh_runs`."""

    unreadable_listed = Signal(list)
    """list[UnreadableRun], newest first: damaged runs, which are not in `runs_listed`."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._machines = background.machines
        self._machines.runs_listed.connect(lambda *_: self._report_all())
        self.recipes = RunRecipes(background, self)
        self._commands = RunCommands(self._machines, self)
        self._commands.failed.connect(self._command_failed)
        self._cancelled = threading.Event()
        self._verified.connect(self._show_verified)
        self._index = RunIndex()
        self._own: list[RunInfo] | None = None
        self._runs = Reading(background, self._report_runs, self._fail)
        self._starting = False
        self._run_id: str | None = None
        self._stop_requested = False

    def watch(self, run_id: str | None) -> None:
        """Send the following commands to `run_id`."""
        self._run_id = run_id
        self._stop_requested = False

    def show_status(self, info: RunInfo) -> None:
        """Set the newest state of the watched run; while it is stopping, `stop` ends it at once."""
        if info.id == self._run_id:
            self._stop_requested = info.state is RunState.STOPPING or (
                self._stop_requested and not info.state.is_over
            )

    def start(self, spec: RunSpec, tags: tuple[str, ...] = (), machine: str = "") -> None:
        """Start a run with `tags` in its notes, on this machine or on the one with this name, to
        which its recipe is sent. Emits `started` or `problems`."""
        _log.info("starts a run: %s with %s on %s", spec.recipe, spec.strategy, spec.devices)

        def work() -> str:
            from engine.interface.recipes import send_recipe

            engine = self._machines.engine(machine)
            there, _ = send_recipe(engine, spec)
            return id_of(machine, engine.start(there, tags))

        self._start_once(work, self._fail)

    def start_again(self, info: RunInfo) -> None:
        """Start a new run with the settings of another one, on its machine. Emits as `start`."""

        def work() -> str:
            engine, _ = self._machines.engine_of(info.id)
            return id_of(engine.machine, engine.start(info.spec))

        self._start_once(work, self._fail)

    def resume(self, request: ResumeRequest) -> None:
        """Continue a run that is over. Emits `started`, `recipe_changed`, `checkpoint_unusable` or
        `resume_refused` (`problems` if the request has a spec)."""
        _log.info("run %s: resumes from %s", request.run_id, request.checkpoint or "its newest")

        if self._starting:
            return
        cancelled = self._cancelled = threading.Event()
        shown = time.monotonic()

        def watch(done: int, total: int) -> None:
            nonlocal shown
            if cancelled.is_set():
                raise _Cancelled
            if total and time.monotonic() > shown + PROGRESS_SECONDS:
                shown = time.monotonic()
                self._verified.emit(request.run_id, done, total)

        def work() -> str:
            engine, run = self._machines.engine_of(request.run_id)
            name = request.checkpoint.name if request.checkpoint else ""
            new = engine.resume(
                run, name, request.spec, request.recipe, watch, as_new=request.as_new
            )
            return id_of(engine.machine, new.run)

        self._start_once(work, partial(self._resume_failed, request))

    def cancel_resume(self) -> None:
        """End the verification of a checkpoint; the run is not resumed."""
        self._cancelled.set()

    def has_run(self, run_id: str) -> bool:
        """Whether the run exists; see `Machines.has_run` for one of another machine."""
        return self._machines.has_run(run_id)

    def list_checkpoints(self, run_id: str) -> None:
        """Read the checkpoints of a run. Emits `checkpoints_listed`."""

        def work() -> tuple[RunInfo, list[CheckpointInfo]]:
            engine, run = self._machines.engine_of(run_id)
            return self._machines.known(run_id), engine.list_checkpoints(run)

        self._background.run(work, lambda both: self.checkpoints_listed.emit(*both), self._fail)

    def pause(self) -> None:
        """Ask the watched run to pause after the current step."""
        self._send(Pause())

    def pause_and_free(self) -> None:
        """Ask the watched run to pause and to move its model off the GPUs until it is resumed."""
        self._send(Pause(free_devices=True))

    def resume_paused(self) -> None:
        """Ask the watched run to resume after a pause."""
        self._send(Resume())

    def stop(self) -> None:
        """Ask the watched run to save a checkpoint and end; the second time, end it at once."""
        self._send(Stop(now=self._stop_requested))
        self._stop_requested = True

    def save_checkpoint(self) -> None:
        """Ask the watched run to save a checkpoint now."""
        self._send(SaveCheckpoint())

    def empty_cache(self) -> None:
        """Ask every worker of the watched run to free unused memory."""
        self._send(EmptyCache())

    def move(self, run_id: str, where: Move) -> None:
        """Move a queued run in the queue. Emits `runs_listed`."""

        def work() -> None:
            engine, run = self._machines.engine_of(run_id)
            engine.move_in_queue(run, where)

        self._background.run(work, lambda _: self.refresh_runs(), self._fail)

    def find_first(self, before: str = "") -> None:
        """Find the run to show first, before all runs are listed: one that is active, else the run
        that was shown `before`, else the newest one. Emits `first_found`."""
        self._background.run(partial(_first, before), self.first_found.emit, self._fail)

    def refresh_runs(self) -> None:
        """Read all runs. Emits `runs_listed`. If runs are being read now, they are read once more
        afterwards."""
        self._runs.ask(self._index.runs)

    def refresh_changed_runs(self) -> None:
        """Read the runs that may have changed. Emits `runs_listed`. Does nothing while runs are
        being read."""
        if not self._runs.is_busy:
            self._runs.ask(self._index.refresh)

    def _start_once(self, work: Callable[[], str], failure: Callable[[Exception], None]) -> None:
        if self._starting:
            return  # the user has clicked twice
        self._starting = True

        def failed(error: Exception) -> None:
            self._starting = False
            self.resume_ended.emit()
            failure(error)

        self._background.run(work, self._report_started, failed)

    def _show_verified(self, run_id: str, done: int, total: int) -> None:
        if self._starting:  # not the last signal of a verification that has ended since
            self.verifying.emit(run_id, done, total)

    def _report_started(self, run_id: str) -> None:
        self._starting = False
        self._stop_requested = False
        self.resume_ended.emit()
        self.started.emit(run_id)

    def _resume_failed(self, request: ResumeRequest, error: Exception) -> None:
        match error:
            case _Cancelled():
                self.failed.emit(f"Run {request.run_id} was not resumed: you have cancelled it.")
            case client.CheckpointUnusable(damaged=damaged, previous=Path() as previous):
                self.checkpoint_unusable.emit(request, damaged, previous)
            case client.RecipeChanged(changes=changes):
                self.recipe_changed.emit(request, changes)
            case CannotStart() | NoSuchRun() if request.spec is None:
                self.resume_refused.emit(request.run_id, str(error))
            case _:
                self._fail(error)

    def _send(self, command: Command) -> None:
        if self._run_id is None:
            return
        _log.info("run %s: asks for %s", self._run_id, command)
        self._commands.send(self._run_id, command)

    def _command_failed(self, run_id: str, error: Exception) -> None:
        if run_id == self._run_id:
            self._stop_requested = False
        self._fail(error)

    def _report_runs(self, infos: list[RunInfo]) -> None:
        self._own = infos
        self._report_all()

    def _report_all(self) -> None:
        """Tell the runs of all machines, newest first."""
        if self._own is None:
            return  # the runs of this machine come first
        infos = self._own
        if others := self._machines.runs():
            infos = sorted([*infos, *others], key=_begun, reverse=True)
        self.runs_listed.emit(infos)
        self.unreadable_listed.emit([*self._index.unreadable, *self._machines.unreadable()])

    def _fail(self, error: Exception) -> None:
        _log.info("the engine refused: %s", error)
        match error:
            case CannotStart(problems=problems):
                self.problems.emit(problems)
            case CommandFailed() | NoSuchRun() | CannotMoveRun() | OSError():
                self.failed.emit(str(error))
            case _:
                raise error


def _begun(info: RunInfo) -> tuple[float, int]:
    """Return what sorts runs of several machines; one that waits counts as new."""
    number = place_of(info.id)[1]
    return info.status.started or math.inf, int(number) if number.isdecimal() else 0


def _first(before: str) -> str | None:
    """See `EngineClient.find_first`; of the active runs, `before` comes first."""
    shown = try_get_run(before) if before and not place_of(before)[0] else None
    if not isinstance(shown, RunInfo):
        return newest_active()
    if shown.state.is_over and (newest := newest_active()) is not None:
        other = try_get_run(newest)
        if isinstance(other, RunInfo) and not other.state.is_over:
            return newest
    return before
