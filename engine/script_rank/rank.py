"""One rank of a script: its command, what the command reports, and what the run asks of it."""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from engine.messages.events import (
    CacheEmptied,
    CheckpointFailed,
    Notice,
    Paused,
    Resumed,
    TrainingEnded,
)
from engine.processes.process import start_time
from engine.processes.process_tree import Identity, is_alive
from engine.script_rank.checkpoints import Checkpoints
from engine.script_rank.child import Child
from engine.script_rank.failures import failure_of_exit, reported_failure
from engine.script_rank.frames import (
    CacheFreed,
    Calls,
    Doing,
    Ended,
    Epoch,
    Failed,
    Frame,
    HasPaused,
    HasResumed,
    Hello,
    Histogram,
    Image,
    Memory,
    NewPoints,
    NotSaved,
    Outline,
    OwnFile,
    Plan,
    Printed,
    Said,
    Saved,
    Stopping,
    Versions,
)
from engine.script_rank.last_resort import Heard, LastResort
from engine.script_rank.launch import Launch, environment_of, words_of, working_folder
from engine.script_rank.link import MOST_UNREAD, Closed, Connection, Link, Received
from engine.script_rank.output_figures import OutputFigures
from engine.script_rank.reports import Reports
from engine.script_rank.script_strategy import ScriptStrategy
from engine.script_rank.stop import SIGNALS, StopStages
from engine.spec.local_modules import is_installed
from engine.training.command_mailbox import CommandFlags
from engine.training.errors import LossNotFinite
from engine.worker.failure_report import failure_report
from engine.worker.session import WorkerSession
from engine.worker.signals import TERMINATED

_log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
READY_SECONDS = 10.0
"""A command that reports nothing counts as running after this time."""

SILENT_SECONDS = 15.0
"""Time after the start until it is said that no Python of the command has connected."""

NO_STEPS_SECONDS = 20.0
"""Time after the start until it is said that the command has loaded no framework."""

LAST_FRAMES_SECONDS = 3.0
"""Time without a frame of the command, after its end, until no more are expected."""

LAST_FRAMES_AT_MOST = 60.0
"""What the command has left may go on and send for ever."""

NO_STEPS = (
    "{name} has loaded no framework whose steps Traindeck sees (PyTorch, Keras, TensorFlow, "
    "XGBoost, LightGBM, CatBoost). Until it does, curves come from what it logs or prints, and it "
    "cannot be paused or save a checkpoint when asked."
)

CUT_OFF = (
    "Process {pid} of the command ended before it had sent everything that it captured: figures "
    "after step {step} may be missing."
)

LEFTOVER_SECONDS = 2.0

UNWATCHED = (
    "{name} does not let Traindeck watch it: it is no Python, or one that was started with -S, -I "
    "or -E, or that sets PYTHONPATH anew. Output, devices, exit code and Stop work as always; "
    "steps, pauses and checkpoints do not."
)


TOO_FAST = (
    "The command prints lines faster than their figures can be read: some of them are missing. "
    "Print less, or log figures, for whole curves."
)

_CTRL_C = "KeyboardInterrupt"


class ChildEnded(NamedTuple):
    """The command has ended."""

    code: int


class Rank:
    """Runs the command once. Everything but `terminate` happens in the main thread."""

    def __init__(self, session: WorkerSession, strategy: ScriptStrategy, launch: Launch) -> None:
        self._session = session
        self._launch = launch
        self._exchange = launch.exchange
        spec, self._name = session.spec, Path(session.spec.recipe).name
        self._inbox: queue.Queue[Any] = queue.Queue(MOST_UNREAD)
        self._link = Link(self._exchange.socket, self._inbox)
        self._reports = Reports(session, launch.first_step)
        self._checkpoints = Checkpoints(session, self._exchange)
        self._link.greeting.append(self._checkpoints.schedule())
        self._stages = StopStages(spec.stop_seconds, self._enter_stage)
        self._figures = OutputFigures()
        self._last_resort = LastResort()
        self._number = 0
        self._doing = ""
        self._told_no_steps = False
        self._has_connected = False
        self._stopped_step: int | None = None
        self._stopped: Identity | None = None
        self._paused = False
        self._signalled = ""
        self._failed: Failed | LossNotFinite | None = None
        self._farewells: set[int] = set()
        """Processes that have sent everything."""

        self._cut_off = ""
        """A sentence about one that has not."""

        self._versions: dict[str, str] = {}
        self.is_ended_now = False
        """Whether the supervisor has ended this rank at once."""

        self._started = time.monotonic()
        words = words_of(spec, launch)
        _log.info("starts %s", words[:1])
        self._child = Child(
            words,
            working_folder(spec),
            environment_of(
                session.folder,
                spec,
                strategy,
                session.rank,
                session.world_size,
                launch,
                self._link.key,
            ),
            figures=self._figures if spec.output_figures and not session.rank else None,
            ended=lambda code: self._inbox.put(ChildEnded(code)),
        )

    def run(self) -> int:
        """Follow the command to its end, report that, and return the exit code of this process.

        A negative one stands for a signal that has ended the command.
        """
        code: int | None = None
        while code is None:
            item = self._next()
            if isinstance(item, ChildEnded):
                code = item.code
            elif item is not None:
                self._handle(item)
            self._tick()
        _log.info("the command has ended with code %d", code)
        self._read_last_frames()
        self._tell_figures(final=True)
        self._child.end_leftovers(LEFTOVER_SECONDS)
        _log.info("what it has left has ended")
        self._link.close()
        self._reports.begin(self._versions)
        return self._report_end(code)

    def end_now(self, seconds: float) -> None:
        """End the command as the supervisor wants, from any thread; `run` reports nothing then."""
        self.is_ended_now = True
        self._terminate(seconds)

    def _terminate(self, seconds: float) -> None:
        """Send SIGTERM to the command, and kill it after `seconds`."""
        self._child.signal(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while self._child.code is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self._child.kill()

    def kill(self) -> None:
        """Kill the command and all that it has started, from any thread."""
        self._child.kill()

    def _next(self) -> Any:
        try:
            return self._inbox.get(timeout=TICK_SECONDS)
        except queue.Empty:
            return None

    def _read_last_frames(self) -> None:
        """Handle what the command has sent before it ended, for a limited time."""
        last = time.monotonic() + LAST_FRAMES_AT_MOST
        deadline = time.monotonic() + LAST_FRAMES_SECONDS
        while time.monotonic() < min(last, deadline):
            is_open = self._link.has_unread or self._checkpoints.is_waiting
            if not is_open and self._inbox.empty():
                return
            item = self._next()
            if item is not None:
                deadline = time.monotonic() + LAST_FRAMES_SECONDS
            if isinstance(item, Received | Closed):
                self._handle(item)
            self._checkpoints.look()
        if self._link.leader is not None:
            self._note_cut(self._link.leader)

    def _tick(self) -> None:
        waited = time.monotonic() - self._started
        if not self._reports.has_begun and (waited > READY_SECONDS or self._stages.is_stopping):
            self._reports.begin(self._versions)
        if not self._has_connected and waited > SILENT_SECONDS:
            self._has_connected = True  # told once
            self._reports.say(UNWATCHED.format(name=self._name))
        if waited > NO_STEPS_SECONDS and not self._told_no_steps:
            self._told_no_steps = True
            if not self._versions and self._link.connections and not self._link.leader:
                self._reports.say(NO_STEPS.format(name=self._name))
        self._handle_commands()
        self._checkpoints.look()
        if self._session.rank == 0:
            self._tick_rank_zero()
        elif stage := self._exchange.of_rank_zero("stage"):
            self._send_signal(stage)
        self._reports.resident((self._child.pid, self._child.created))
        if self._session.alive.doing != "checkpoint" or not self._checkpoints.is_waiting:
            self._reports.alive(self._doing, self._child.bytes_read)
        self._tell_figures()

    def _tick_rank_zero(self) -> None:
        if self._checkpoints.is_due() and self._link.leader and not self._stages.is_stopping:
            self._ask("checkpoint", ("minutes",))
        if self._stopped is not None and not is_alive(self._stopped):
            self._stages.outlived()
        if self._checkpoints.is_waiting:
            self._stages.wait_longer()
        self._stages.tick(catches_terminate=self._child.catches(signal.SIGTERM))

    def _handle_commands(self) -> None:
        flags = self._session.mailbox.collect()
        if not flags or self._session.rank:
            return
        if CommandFlags.STOP in flags:
            self._stop()
            return
        if CommandFlags.EMPTY_CACHE in flags:
            self._ask_or_say("empty_cache", "Its cache cannot be emptied")
        if CommandFlags.CHECKPOINT in flags and not self._ask("checkpoint", ("request",)):
            text = f"No checkpoint could be saved: {self._why_not()}"
            self._session.emit(CheckpointFailed(self._reports.step, text))
        if CommandFlags.PAUSE in flags:
            self._ask_or_say("pause", "It cannot be paused")
        if CommandFlags.RESUME in flags:
            self._ask_or_say("resume", "It cannot be resumed")

    def _stop(self) -> None:
        """Ask the command to end: at a step if it trains, otherwise as Ctrl-C does."""
        with contextlib.suppress(OSError):
            self._exchange.note("stage", "ask")
        # What the command starts from here on must not train.
        later = {"kind": "act", "what": "stop", "number": 0, "save": False}
        self._link.greeting.append(later)
        trains = self._reports.has_stepped or self._paused
        leads = self._link.leader is not None
        at_step = trains and leads and self._ask("stop", ("last",))
        self._stages.begin(at_step=at_step, step_seconds=self._reports.step_seconds)

    def _ask_or_say(self, what: str, otherwise: str) -> None:
        if not self._ask(what, ()):
            self._session.emit(Notice(f"{otherwise}: {self._why_not()}", 0))

    def _why_not(self) -> str:
        if self._link.addressee is None:
            return f"no Python of {self._name} listens to Traindeck."
        return f"the process of {self._name} did not take the message."

    def _ask(self, what: str, kinds: tuple[str, ...]) -> bool:
        """Send an act to the script; return whether it has taken it."""
        self._number += 1
        addressee = self._link.addressee
        if addressee is None:
            return False
        if kinds:
            self._checkpoints.requested(self._number, kinds)
        act = {"kind": "act", "what": what, "number": self._number, "kinds": list(kinds)}
        _log.info("act %d: %s", self._number, what)
        return addressee.send(act)

    def _enter_stage(self, stage: str) -> None:
        """Send the signal of a stage here, and let the other ranks do the same."""
        with contextlib.suppress(OSError):
            self._exchange.note("stage", stage)
        self._send_signal(stage)

    def _send_signal(self, stage: str) -> None:
        if stage in SIGNALS and stage != self._signalled:
            self._signalled = stage
            self._child.signal(SIGNALS[stage])

    def _tell_figures(self, *, final: bool = False) -> None:
        """Report the figures of the output that the script does not report otherwise."""
        if final:
            self._figures.finish()
        self._last_resort.add(self._figures.take(), self._heard())
        if not self._reports.logs and (self._figures.misses or self._last_resort.is_full):
            self._reports.say(TOO_FAST)
        if found := self._last_resort.take(self._heard(), final=final):
            epoch = 0 if self._reports.captures else self._figures.epoch
            self._check(lambda: self._reports.figures(found, epoch))

    def _heard(self) -> Heard:
        reports = self._reports
        return Heard(
            loads=bool(self._versions),
            step=reports.step,
            has_stepped=reports.has_stepped,
            step_seconds=reports.step_seconds,
            losses=reports.captures or self._launch.had_steps,
            has_loss=reports.has_loss or not reports.captures,
            logs=reports.logs,
        )

    def _handle(self, item: Received | Closed) -> None:
        match item:
            case Closed(connection):
                self._note_cut(connection)
                self._link.ended(connection)
            case Received(connection, frame):
                self._receive(connection, frame)

    def _note_cut(self, connection: Connection) -> None:
        """Note whether figures may be missing: the process that reports them said no goodbye."""
        pid = connection.hello.pid
        others = [each for each in self._link.connections if each is not connection]
        has_another = pid in (each.hello.pid for each in others)
        if self._link.leader is connection and not has_another and pid not in self._farewells:
            self._cut_off = CUT_OFF.format(pid=pid, step=self._reports.step)

    def _receive(self, connection: Connection, frame: Frame) -> None:
        reports = self._reports
        leads = self._link.leads(connection, frame)
        match frame:
            case Hello():
                self._has_connected = True
                self._farewells.discard(connection.hello.pid)
            case Ended():
                self._farewells.add(connection.hello.pid)
            case Versions(versions):
                self._versions |= {name[:100]: text[:100] for name, text in versions.items()}
                reports.begin(self._versions)
            case Said():
                reports.said(frame)
            case Memory():
                reports.memory(frame)
            case Failed():
                self._failed = self._failed or frame
            case OwnFile():
                reports.own_file(frame)
            case CacheFreed(device, freed):
                freed = max(0, min(freed, 2**62))
                self._session.emit(CacheEmptied(self._session.rank, device[:100], freed))
            case _ if not leads:
                return
            case NewPoints():
                reports.begin(self._versions)
                self._check(lambda: reports.points(frame))
            case Plan():
                reports.planned(frame)
            case Outline():
                reports.outline(frame)
            case Printed():
                self._last_resort.printed(frame.lines)
            case Epoch():
                reports.epoch_ended(frame)
            case Image():
                reports.image(frame)
            case Histogram():
                reports.histogram(frame)
            case Doing():
                self._doing = frame.what[:40]
            case Saved():
                self._checkpoints.saved(frame)
            case NotSaved():
                self._checkpoints.not_saved(frame)
            case HasPaused(step):
                self._paused = True
                self._emit_at(step, Paused)
            case HasResumed(step):
                self._paused = False
                self._emit_at(step, Resumed)
            case Stopping(step):
                if self._stopped_step is None:
                    pid = connection.hello.pid
                    self._stopped_step, self._stopped = step, (pid, start_time(pid))
                    self._stages.answered()
            case Calls():
                pass

    def _emit_at(self, step: int, kind: Callable[[int], Paused | Resumed]) -> None:
        if self._session.rank == 0 and 0 <= step < 2**63:
            self._session.emit(kind(step))

    def _check(self, report: Callable[[], None]) -> None:
        """Call `report`; end the command if the loss is not finite and the spec says so."""
        try:
            report()
        except LossNotFinite as error:
            if self._failed is None:
                self._failed = error
                threading.Thread(
                    target=self._terminate, args=(LEFTOVER_SECONDS,), daemon=True
                ).start()

    def _report_end(self, code: int) -> int:
        """Report how the command has ended; return the exit code of this process."""
        if self.is_ended_now:
            return TERMINATED
        session = self._session
        was_asked = bool(self._stopped_step is not None or self._exchange.of_rank_zero("stage"))
        if isinstance(self._failed, LossNotFinite):
            session.emit(failure_report(session.rank, session.recipe, self._failed))
            return 1
        # What a Stop raises, and what a handler of the script makes of a signal, is no failure.
        is_ours = bool(self._signalled) or (
            was_asked and self._failed is not None and self._failed.message.startswith(_CTRL_C)
        )
        if self._failed is not None and code != 0 and not is_ours:
            session.emit(reported_failure(session.rank, self._failed, code, self._owns))
            return code
        if code != 0 and not was_asked:
            session.emit(
                failure_of_exit(session.rank, self._name, code, self._child.tail, self._owns)
            )
            return code
        if self._cut_off and not was_asked:
            self._reports.say(self._cut_off)
        with contextlib.suppress(OSError):
            self._exchange.note("ended")
        if session.rank == 0:
            # A rank that has ended first must not let the others seem to hang: see `Deadlines`.
            while self._exchange.of_all("ended") is None and not session.is_orphaned:
                time.sleep(TICK_SECONDS)
            step = self._reports.last_step if self._stopped_step is None else self._stopped_step
            # One that was asked may have ended by itself before it did what was asked.
            has_obeyed = self._stopped_step is not None or bool(self._signalled)
            completed = not was_asked or (code == 0 and not has_obeyed)
            reason = "The command has ended by itself." if completed else ""
            session.emit(TrainingEnded(max(0, step), completed, reason))
        return 0

    def _owns(self, file: Path) -> bool:
        """Whether `file` is the user's code."""
        own = self._session.recipe.owns(file)
        folder = working_folder(self._session.spec)
        return own or (file.is_relative_to(folder) and not is_installed(file, folder))
