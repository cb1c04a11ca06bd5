"""One attempt of a run: it starts a pool of workers, records their events and gives a verdict."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from typing import assert_never

from engine.diagnosis.deadlines import Deadlines
from engine.diagnosis.device_watch import DeviceWatch, lost_device_failure
from engine.diagnosis.hang_watch import HangWatch
from engine.diagnosis.root_cause import CUT_OFF, find_failure
from engine.messages.channel import CLOSED, Alive, Channel, Message, Recorded
from engine.messages.commands import Command, Stop
from engine.messages.events import (
    CheckpointFailed,
    CheckpointSaved,
    Event,
    Failure,
    Notice,
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
from engine.processes import process
from engine.runs import checkpoint_files
from engine.runs.run_state import RunState
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import (
    Inbox,
    Launch,
    LaunchedCold,
    LaunchEnded,
    LaunchFailed,
    WorkerLaunched,
)
from engine.supervisor.restart_policy import FailurePoint, StepBounds
from engine.supervisor.stop_escalation import StopEscalation
from engine.supervisor.worker_pool import RunPlan, WorkerPool
from engine.worker import environment

_log = logging.getLogger(__name__)

CUT_OFF_MARGIN = 5.0
"""Seconds after those of an orphaned worker until one that has lost its connection is killed."""


class Attempt:
    """Follows the workers of one attempt. Only the supervisor's main thread uses it."""

    def __init__(
        self, plan: RunPlan, store: BufferedStore, device_watch: DeviceWatch, inbox: Inbox
    ) -> None:
        self._plan = plan
        self._store = store
        self._device_watch = device_watch
        self._pool = WorkerPool(plan, inbox.put)
        self._escalation = StopEscalation(
            self._enter_stage, plan.spec.stop_seconds, self._save_progress
        )
        self._saves: dict[int, Alive] = {}
        """By rank: its last sign of life in a checkpoint."""

        ranks = [worker.rank for worker in plan.workers]
        self._deadlines = Deadlines(ranks, plan.strategy.heartbeat_timeout)
        self._hang_watch = HangWatch(plan.folder, plan.spec.hang_minutes, plan.workers, plan.recipe)
        self._channels: dict[int, Channel] = {}
        self._failure_reports: dict[int, WorkerFailed] = {}
        self._exit_codes: dict[int, int] = {}
        self._bad_exit_codes: dict[int, int] = {}
        self._failed_checkpoint: CheckpointFailed | None = None
        self._failure: Failure | None = None
        self._step_bounds = StepBounds(0)
        self._is_launching = False
        self._training_started = False
        self._stop_number = 0
        self._acknowledged: dict[int, int] = {}
        self._cut_off: set[int] = set()
        self.durable: Mapping[int, int] = {}
        """How many events of each rank no power cut can lose; another thread replaces it."""

        self.training_ended: TrainingEnded | None = None
        """The last event of rank 0, once it has left its training loop."""

        self.has_stepped = False
        """Whether a step was done."""

        self.stop_reason = ""
        """Why the attempt is stopped without a command, for the user; empty otherwise."""

    def start(self, resume_from: str, *, is_restart: bool = False) -> None:
        """Start the workers, from the checkpoint named `resume_from` unless that is empty.

        With `is_restart`, remove the points of earlier attempts even without a checkpoint.
        """
        folder, group = self._plan.folder, self._plan.control_group
        rendezvous = folder / f"attempt-{self._store.status.attempt}.rendezvous"
        rendezvous.unlink(missing_ok=True)  # a used file holds addresses of dead processes
        extra = {
            environment.RENDEZVOUS: str(rendezvous),
            environment.RESUME: resume_from,
            environment.ATTEMPT: str(self._store.status.attempt),
            environment.SUPERVISOR: str(os.getpid()),
            environment.CONTROL_GROUP: str(group.folder) if group else "",
        }
        try:
            checkpoint_files.remove_unfinished(folder)
            if resume_from or is_restart:
                self._rewind(resume_from)
            self._pool.start(extra)
            self._is_launching = True
        except (OSError, checkpoint_files.CheckpointDamaged) as error:
            self.fail(str(error))

    def launched(self, item: Launch) -> None:
        """Handle a report about the start of the workers."""
        match item:
            case WorkerLaunched(rank, pid):
                devices = self._plan.workers[rank].devices
                _log.info("rank %d: started as pid %d on %s", rank, pid, devices)
                created = process.start_time(pid)
                self._store.append(WorkerStarted(rank, pid, devices, created))
            case LaunchedCold(reason):
                text = f"The workers start cold, which takes seconds longer: {reason}."
                self._store.append(Notice(text))
            case LaunchFailed(reason):
                self.fail(reason)
            case LaunchEnded():
                self._is_launching = False
                self._deadlines.launched()
            case _:
                assert_never(item)

    def connected(self, rank: int, channel: Channel) -> None:
        """Handle a new connection from `rank`."""
        if 0 <= rank < len(self._plan.workers):
            _log.info("rank %d: connected", rank)
            self._channels[rank] = channel

    def received(self, rank: int, message: Message) -> None:
        """Handle a message from `rank`; every message is a sign of life."""
        self._deadlines.received(rank)
        self._hang_watch.received(rank, message)
        if isinstance(message, Alive) and message.doing == "checkpoint":
            self._saves[rank] = message
        if self._all_exited:
            self._deadlines.all_exited()  # there may be more to read
        if isinstance(message, Event):
            self._handle_event(message)

    def disconnected(self, rank: int) -> None:
        """Handle the end of the connection to `rank`; -1: a window or a command line."""
        if rank < 0:
            return
        if channel := self._channels.pop(rank, None):
            _log.info("rank %d: disconnected", rank)
            channel.close()
        self._deadlines.disconnected(rank)

    def exited(self, rank: int, code: int) -> None:
        """Handle the end of the process of `rank`."""
        _log.info("rank %d: exited with code %d", rank, code)
        self._exit_codes[rank] = code
        if code != 0 and not self._escalation.used_force:
            self._bad_exit_codes[rank] = code
            self._deadlines.start_failure_grace()
        if self._all_exited:
            self._deadlines.all_exited()

    def send(self, rank: int, command: Command) -> None:
        """Pass a command to `rank`."""
        try:
            self._channels[rank].send(command)
            _log.info("command %d: passed to rank %d: %s", command.number, rank, command)
        except (*CLOSED, KeyError):  # the inbox will report that the connection ended
            _log.info("command %d: rank %d is not connected", command.number, rank)

    def acknowledge(self) -> None:
        """Tell the workers how many of their events are durable, where that has changed."""
        durable = self.durable
        for rank, channel in self._channels.items():
            number = durable.get(rank, 0)
            if number > self._acknowledged.get(rank, 0):
                self._acknowledged[rank] = number
                with contextlib.suppress(*CLOSED):  # the inbox will report that it ended
                    channel.send(Recorded(number))

    def stop(self, command: Stop) -> None:
        """Begin to stop the workers; with `now`, or before they train, terminate them."""
        status = self._store.status
        self._stop_number = command.number
        is_training = status.state in (RunState.RUNNING, RunState.PAUSED)
        if command.now or (not is_training and not self._escalation.is_stopping):
            self._escalation.escalate_to("terminate")
        else:
            self._escalation.escalate_to("ask", status.step_seconds)

    def fail(self, sentence: str) -> None:
        """End the attempt for a reason that lies outside its workers."""
        _log.info("the attempt fails: %s", sentence)
        self._failure = Failure(-1, "", 0, "", sentence, "", "")

    def tick(self) -> None:
        """Check the deadlines and the hang watch; called in every turn of the main loop."""
        self._escalation.tick()
        self._check_deadlines()
        status = self._store.status
        if trouble := self._hang_watch.tick(status):
            self._store.append(trouble)
        if self._plan.spec.max_restarts and (failure := self._hang_watch.failure(status)):
            self._failure = failure

    @property
    def accepts_commands(self) -> bool:
        """Whether rank 0 is connected."""
        return 0 in self._channels

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._escalation.is_stopping

    @property
    def is_drained(self) -> bool:
        """Whether all processes have exited and all their messages were received."""
        return (
            not self._is_launching
            and len(self._exit_codes) == self._pool.size
            and not self._channels
        )

    @property
    def is_over(self) -> bool:
        """Whether the supervisor can stop waiting for the workers."""
        if self._failure:
            return True
        if self.is_stopping and self.is_drained:
            return True  # perhaps before all its workers were started
        if not self._is_launching and self._device_watch.fatal_lost_device(self._store.status):
            return True
        return self._all_told or self._deadlines.is_over

    def kill(self) -> None:
        """Kill the remaining processes, and delete the rendezvous file."""
        self._pool.end(kill=True)
        with contextlib.suppress(OSError):  # the folder may be read-only, or out of reach by now
            for file in self._plan.folder.glob("attempt-*.rendezvous*"):
                file.unlink(missing_ok=True)

    def failure_point(self, failure: Failure) -> FailurePoint:
        """Return the message of `failure` and the step bounds of the attempt."""
        return FailurePoint(failure.message, self._step_bounds.reported, self._step_bounds.possible)

    def verdict(self) -> RunEnded:
        """Return the terminal event. A requested stop is no failure, unless a worker failed."""
        if self._failure:
            return RunEnded("failed", self._failure.message, self._failure)
        if self.training_ended and not self._bad_exit_codes:
            return self._end_without_failure(self.training_ended)
        if self.is_stopping and not self._failure_reports and not self._bad_exit_codes:
            if not self._training_started and (step := self._store.status.step):
                return RunEnded(
                    "stopped", f"Stopped before the training went on after step {step}."
                )
            if not self._training_started:
                return RunEnded("stopped", "Stopped before the training began.")
            return RunEnded("stopped", f"{self.stop_reason}Stopped at once, without saving.")
        workers = self._plan.workers
        logs = {worker.rank: self._pool.log_file(worker.rank) for worker in workers}
        if lost := self._device_watch.lost_device_to_blame():
            failure = lost_device_failure(lost, self._store.status, workers, logs)
        else:
            failure = find_failure(self._bad_exit_codes, self._failure_reports, workers, logs)
        return RunEnded("failed", failure.message, failure)

    def _end_without_failure(self, ended: TrainingEnded) -> RunEnded:
        problem = self._failed_checkpoint.text if self._failed_checkpoint else ""
        if ended.completed:
            epochs = self._plan.spec.epochs
            reason = "The one epoch is done." if epochs == 1 else f"All {epochs} epochs are done."
            return RunEnded("finished", f"{reason} {problem}".rstrip())
        reason = f"{self.stop_reason}Stopped after step {ended.step}"
        if problem:
            return RunEnded("stopped", f"{reason}. {problem}")
        return RunEnded("stopped", f"{reason}, with a checkpoint saved.")

    @property
    def _all_exited(self) -> bool:
        return len(self._exit_codes) == len(self._plan.workers)

    @property
    def _all_told(self) -> bool:
        """Whether every worker has reported its failure, or has ended and can report no more."""
        return all(
            (worker.rank in self._failure_reports and worker.rank not in self._cut_off)
            or (worker.rank in self._exit_codes and worker.rank not in self._channels)
            for worker in self._plan.workers
        )

    def _handle_event(self, event: Event) -> None:
        match event:
            case WorkerFailed(rank):
                self._failure_reports.setdefault(rank, event)
                self._deadlines.start_failure_grace()
            case TrainingStarted():
                self._training_started = True
            case WorkerReady(rank):
                self._deadlines.ready(rank)
            case Progress(step=step):
                self.has_stepped = True
                self._step_bounds.report(step)
            case CheckpointSaved():
                self._failed_checkpoint = None
            case CheckpointFailed():
                self._failed_checkpoint = event
            case TrainingEnded():
                self.training_ended = event
                self._deadlines.training_ended()
        self._device_watch.add_event(event)
        self._store.append(event)

    def _rewind(self, name: str) -> None:
        # The caller has verified the checksums: see `engine.client.resume` and `CheckpointSearch`.
        folder = self._plan.folder
        position, metrics = checkpoint_files.Position(), {}
        if name:
            manifest = checkpoint_files.read_manifest(folder / checkpoint_files.FOLDER / name)
            position, metrics = manifest.position, manifest.metrics
        checkpoint_files.rename_after(folder, position.step, self._store.status.attempt)
        self._store.rewind(position.step, validates_again=position.batch > 0)
        self._store.append(Rewound(position.step, name, position.epoch, metrics))
        self._step_bounds = StepBounds(position.step)

    def _save_progress(self) -> object:
        """Return what changes while a checkpoint is written."""
        return checkpoint_files.unfinished_bytes(self._plan.folder), dict(self._saves)

    def _enter_stage(self, stage: str) -> None:
        self._store.append(StopStage(stage))
        if stage == "ask":
            self.send(0, Stop(number=self._stop_number))
            return
        if stage == "terminate":
            for rank in self._channels:  # workers ignore signals: see `engine.worker.signals`
                self.send(rank, Stop(now=True, number=self._stop_number))
        self._pool.end(kill=stage == "kill")

    def _check_deadlines(self) -> None:
        # Both cases end in SIGKILL: a framework that waits for a lost rank may ignore SIGTERM.
        late_ranks = [] if self._is_launching else self._deadlines.late_ranks()
        if late := ", ".join(self._plan.workers[rank].label for rank in late_ranks):
            self.fail(
                f"{late} did not start within {self._deadlines.start_seconds:.0f} s: "
                f"the logs in {self._plan.folder / 'logs'} say more."
            )
        for rank in self._deadlines.cut_off_ranks():
            self._note_cut_off(rank)
        silent = self._deadlines.silent_rank()
        if silent is not None and silent not in self._failure_reports:
            seconds = self._deadlines.heartbeat_timeout
            text = f"it has not answered for {seconds:.0f} s; it hangs, or was halted."
            self._handle_event(WorkerFailed(silent, text, where="", traceback="", lost_peer=False))

    def _note_cut_off(self, rank: int) -> None:
        """Note that the connection to a worker has ended, and that the worker lives.

        It saves and leaves as if the supervisor was killed; the others hear of it from rank 0.
        """
        is_told = rank in self._cut_off or rank in self._failure_reports
        if is_told or rank in self._exit_codes or self.training_ended or self.is_stopping:
            return
        self._cut_off.add(rank)
        report = WorkerFailed(rank, f"it {CUT_OFF}", where="", traceback="", lost_peer=False)
        self._failure_reports[rank] = report
        self._store.append(report)
        self._deadlines.leave_within(self._plan.spec.orphan_seconds + CUT_OFF_MARGIN)
        self.send(0, Stop())
