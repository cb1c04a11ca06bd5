"""One attempt of a run: its pool of workers, from their start to the verdict on how it ended."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.diagnosis.deadlines import Deadlines
from engine.diagnosis.device_watch import DeviceWatch, loss_failure
from engine.diagnosis.hang_watch import HangWatch
from engine.diagnosis.root_cause import find_failure
from engine.messages.channel import CLOSED, Channel, Message
from engine.messages.commands import Command, Stop
from engine.messages.events import (
    CheckpointFailed,
    CheckpointSaved,
    Event,
    Failure,
    Progress,
    Rewound,
    RunEnded,
    StopStage,
    TrainingEnded,
    TrainingStarted,
    WorkerFailed,
    WorkerReady,
    WorkerStarted,
)
from engine.runs import checkpoint_files
from engine.runs.run_state import RunState
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy, WorkerPlan
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, WorkerExited
from engine.supervisor.restart_policy import Reach, Setback
from engine.supervisor.stop_escalation import StopEscalation
from engine.supervisor.worker_pool import Pool
from engine.worker import environment

_log = logging.getLogger(__name__)


class Work(NamedTuple):
    """What every attempt of a run does."""

    folder: Path
    spec: RunSpec
    recipe: RecipeInfo
    strategy: Strategy
    plans: Sequence[WorkerPlan]
    start_seconds: float


class Attempt:
    """Knows its workers. Touched by the supervisor's main thread only."""

    def __init__(
        self,
        work: Work,
        buffer: BufferedStore,
        watch: DeviceWatch,
        inbox: Inbox,
        record: Callable[[Event], None],
    ) -> None:
        self._work = work
        self._buffer = buffer
        self._watch = watch
        self._record = record
        self._pool = Pool(work.folder, lambda rank, code: inbox.put(WorkerExited(rank, code)))
        self._escalation = StopEscalation(self._enter_stage)
        ranks = [plan.rank for plan in work.plans]
        self._deadlines = Deadlines(ranks, work.start_seconds, work.strategy.longest_silence)
        self._hang = HangWatch(work.folder, work.spec.hang_minutes, work.plans, work.recipe)
        self._workers: dict[int, Channel] = {}
        self._accounts: dict[int, WorkerFailed] = {}
        self._exits: dict[int, int] = {}
        self._bad_exits: dict[int, int] = {}
        self._unsaved: CheckpointFailed | None = None
        self._failure: Failure | None = None
        self._reach = Reach(0)
        self._trains = False
        self._stop_number = 0
        self.ended: TrainingEnded | None = None
        """Rank 0's last word, once it has left its loop."""

        self.has_stepped = False
        """Whether a step was done."""

        self.why_stopped = ""
        """Why it is stopped if nobody asked for it: a sentence."""

    def start(self, resume_from: str, *, anew: bool = False) -> None:
        """Start the workers; from the checkpoint of that name, if there is one. `anew`: what a
        former attempt has recorded counts no more."""
        folder = self._work.folder
        rendezvous = folder / f"attempt-{self._buffer.status.attempt}.rendezvous"
        rendezvous.unlink(missing_ok=True)  # a file that was used once leads to dead addresses
        extra = {environment.RENDEZVOUS: str(rendezvous), environment.RESUME: resume_from}
        try:
            checkpoint_files.remove_unfinished(folder)
            if resume_from or anew:
                self._rewind(resume_from)
            self._pool.start(self._work.spec, self._work.recipe, self._work.plans, extra)
        except (OSError, checkpoint_files.CheckpointDamaged) as error:
            self.fail(str(error))
            return
        for plan, process in zip(self._work.plans, self._pool.processes, strict=True):
            _log.info("rank %d: started as pid %d on %s", plan.rank, process.pid, plan.devices)
            self._record(WorkerStarted(plan.rank, process.pid, plan.devices))

    def connected(self, rank: int, channel: Channel) -> None:
        """Rank `rank` calls."""
        if 0 <= rank < len(self._work.plans):
            _log.info("rank %d: connected", rank)
            self._workers[rank] = channel

    def heard(self, rank: int, message: Message) -> None:
        """Whatever a worker says is a sign of life."""
        self._deadlines.heard(rank)
        self._hang.heard(rank, message)

    def take(self, message: Message) -> None:
        """Take what a worker says."""
        match message:
            case WorkerFailed(rank):
                self._accounts[rank] = message
                self._deadlines.start_failure_grace()
            case TrainingStarted():
                self._trains = True
            case WorkerReady(rank):
                self._deadlines.ready(rank)
            case Progress(step=step):
                self.has_stepped = True
                self._reach.reported(step)
            case CheckpointSaved():
                self._unsaved = None
            case CheckpointFailed():
                self._unsaved = message
            case TrainingEnded():
                self.ended = message
                self._deadlines.leave()
        if isinstance(message, Event):
            self._record(message)

    def left(self, rank: int) -> None:
        """The connection of `rank` has ended."""
        if self._workers.pop(rank, None):
            _log.info("rank %d: disconnected", rank)
        self._deadlines.gone(rank)

    def exited(self, rank: int, code: int) -> None:
        """The process of `rank` is gone."""
        _log.info("rank %d: exited with code %d", rank, code)
        self._exits[rank] = code
        if code != 0 and not self._escalation.used_force:
            self._bad_exits[rank] = code
            self._deadlines.start_failure_grace()
        if self._all_exited:
            self._deadlines.drain()

    def send(self, rank: int, command: Command) -> None:
        """Pass a command to `rank`."""
        try:
            self._workers[rank].send(command)
            _log.info("command %d: passed to rank %d: %s", command.number, rank, command)
        except (*CLOSED, KeyError):
            _log.info("command %d: rank %d is not connected", command.number, rank)
            return  # its end is on the way to the inbox

    def stop(self, command: Stop) -> None:
        """Begin to end the pool, or go on with that."""
        status = self._buffer.status
        self._stop_number = command.number
        trains = status.state in (RunState.RUNNING, RunState.PAUSED)
        if command.now or (not trains and not self._escalation.is_stopping):
            self._escalation.escalate_to("terminate")
        else:
            self._escalation.escalate_to("ask", status.step_seconds)

    def fail(self, sentence: str) -> None:
        """End the attempt for a reason that lies outside its workers."""
        _log.info("the attempt fails: %s", sentence)
        self._failure = Failure(-1, "", 0, "", sentence, "", "")

    def tick(self) -> None:
        """Look at the clock."""
        self._escalation.tick()
        self._check_deadlines()
        status = self._buffer.status
        if trouble := self._hang.tick(status):
            self._record(trouble)
        if self._work.spec.max_restarts and (failure := self._hang.failure(status)):
            self._failure = failure

    @property
    def listens(self) -> bool:
        """Whether rank 0 is there to take commands."""
        return 0 in self._workers

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants it to end."""
        return self._escalation.is_stopping

    @property
    def is_gone(self) -> bool:
        """Whether no process is left, and everything that was said is received."""
        return len(self._exits) == len(self._pool.processes) and not self._workers

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to wait for."""
        if self._failure or self._watch.fatal_loss(self._buffer.status):
            return True
        if self.is_stopped and not self._pool.processes:
            return True  # it was stopped before it began
        return (self._all_exited and not self._workers) or self._deadlines.over

    def kill(self) -> None:
        """End whatever is left of the pool, at once."""
        self._pool.end(kill=True)
        for used in self._work.folder.glob("attempt-*.rendezvous*"):
            with contextlib.suppress(OSError):  # a folder that became read-only keeps it
                used.unlink(missing_ok=True)

    def setback(self, failure: Failure) -> Setback:
        """How far the attempt came before `failure`."""
        return Setback(failure.message, self._reach.step, self._reach.furthest)

    def verdict(self) -> RunEnded:
        """How it ended. What a person asked for comes before what broke on the way."""
        if self._failure:
            return RunEnded("failed", self._failure.message, self._failure)
        if self.ended and not self._bad_exits:
            return self._good_end(self.ended)
        if self.is_stopped and not self._accounts and not self._bad_exits:
            if not self._trains:
                return RunEnded("stopped", "Stopped before the training began.")
            return RunEnded("stopped", f"{self.why_stopped}Stopped at once, without saving.")
        plans, logs = self._work.plans, self._logs()
        if lost := self._watch.suspect():
            failure = loss_failure(lost, self._buffer.status, plans, logs)
        else:
            failure = find_failure(self._bad_exits, self._accounts, plans, logs)
        return RunEnded("failed", failure.message, failure)

    def _good_end(self, ended: TrainingEnded) -> RunEnded:
        unsaved = self._unsaved.text if self._unsaved else ""
        if ended.completed:
            epochs = self._work.spec.epochs
            reason = "The one epoch is done." if epochs == 1 else f"All {epochs} epochs are done."
            return RunEnded("finished", f"{reason} {unsaved}".rstrip())
        reason = f"{self.why_stopped}Stopped after step {ended.step}"
        if unsaved:
            return RunEnded("stopped", f"{reason}. {unsaved}")
        return RunEnded("stopped", f"{reason}, with a checkpoint saved.")

    @property
    def _all_exited(self) -> bool:
        return len(self._exits) == len(self._work.plans)

    def _rewind(self, name: str) -> None:
        # Whoever chose it has compared its checksums: see `engine.client.resume` and `Search`.
        folder = self._work.folder
        position, metrics = checkpoint_files.Position(), {}
        if name:
            manifest = checkpoint_files.read_manifest(folder / checkpoint_files.FOLDER / name)
            position, metrics = manifest.position, manifest.metrics
        checkpoint_files.set_aside_after(folder, position.step, self._buffer.status.attempt)
        self._buffer.rewind(position.step, validates_again=position.batch > 0)
        self._record(Rewound(position.step, name, position.epoch, metrics))
        self._reach = Reach(position.step)

    def _enter_stage(self, stage: str) -> None:
        self._record(StopStage(stage))
        if stage == "ask":
            self.send(0, Stop(number=self._stop_number))
            return
        for rank in list(self._workers) if stage == "terminate" else ():
            # Workers ignore signals: see `engine.worker.signals`.
            self.send(rank, Stop(now=True, number=self._stop_number))
        self._pool.end(kill=stage == "kill")

    def _check_deadlines(self) -> None:
        # A framework may wait for a peer for ever, deaf to every signal but SIGKILL.
        if late := ", ".join(self._work.plans[rank].who for rank in self._deadlines.late()):
            self.fail(
                f"{late} did not start within {self._deadlines.start_seconds:.0f} s: "
                f"the logs in {self._work.folder / 'logs'} say more."
            )
        silent = self._deadlines.silent()
        if silent is not None and silent not in self._accounts:
            seconds = self._deadlines.longest_silence
            text = f"it has not answered for {seconds:.0f} s; it hangs, or was halted."
            self.take(WorkerFailed(silent, text, where="", traceback="", lost_peer=False))

    def _logs(self) -> dict[int, Path]:
        return {plan.rank: self._pool.log(plan.rank) for plan in self._work.plans}
