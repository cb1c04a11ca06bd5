"""One attempt of a run: it starts a pool of workers, records their events and gives a verdict."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from engine.diagnosis import gpu_links
from engine.diagnosis.deadlines import AwakeClock, Deadlines
from engine.diagnosis.device_watch import DeviceWatch, lost_device_failure
from engine.diagnosis.hang_watch import HangWatch
from engine.diagnosis.root_cause import CUT_OFF, find_failure
from engine.files import scratch_folder
from engine.files.save_progress import TimeToSave
from engine.messages.channel import CLOSED, CONNECTING, LOADING, Alive, Channel, Message, Recorded
from engine.messages.commands import Command, Stop
from engine.messages.events import (
    CheckpointFailed,
    CheckpointSaved,
    Event,
    Failure,
    Metrics,
    Notice,
    Progress,
    Rewound,
    RunEnded,
    Shrunk,
    StopStage,
    TrainingEnded,
    TrainingStarted,
    WorkerFailed,
    WorkerReady,
    WorkerStarted,
)
from engine.processes import process
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import OWN
from engine.runs.checkpoints.script_files import Continuation
from engine.runs.run_state import RunState, accumulation_in_force, not_finite_sentence
from engine.spec.metric_direction import direction_overrides
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import resumes_by_calls
from engine.spec.worker_python import environment_notices
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
from engine.supervisor.run_limits import limit_reached
from engine.supervisor.script_attempt import FROM_THE_BEGINNING, ScriptAttempt
from engine.supervisor.stop_escalation import StopEscalation
from engine.supervisor.worker_pool import RunPlan, WorkerPool
from engine.training.early_end import SCRATCH
from engine.training.early_stopping import EARLY_STOPPING, EarlyStopping
from engine.training.kernel_faults import LAUNCH_BLOCKING
from engine.training.shrinking import SHRINK
from engine.worker import environment

if TYPE_CHECKING:
    from engine.supervisor.machines.cluster_pool import ClusterPool

_log = logging.getLogger(__name__)

SILENCE_SECONDS = 15.0
"""Another machine that has said nothing for so long is lost."""

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
        self._pool = _pool(plan, inbox)
        self._script = ScriptAttempt(plan.folder, plan.spec) if plan.spec.is_script else None
        self._escalation = StopEscalation(
            self._enter_stage, plan.spec.stop_seconds, self._save_progress
        )
        self.scratch: Path | None = None
        """What the workers share, and what they leave in the temporary folder."""

        self._saves: dict[int, Alive] = {}
        """By rank: its last sign of life in a checkpoint."""

        self._doing: dict[int, str] = {}
        """By rank: what its last sign of life says."""

        self.lost_machines: dict[str, str] = {}
        """Other machines that do not answer any more, and why, in a clause."""

        ranks = [worker.rank for worker in plan.workers]
        # Ranks notice at once that another one is gone, and much sooner than that its machine is.
        grace = SILENCE_SECONDS if plan.is_spread else 0.0
        self._deadlines = Deadlines(ranks, plan.strategy.heartbeat_timeout, failure_grace=grace)
        self._hang_watch = HangWatch(
            plan.folder,
            plan.spec.hang_minutes,
            plan.workers,
            plan.recipe,
            ask_elsewhere=self._pool.ask_stacks,
        )
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
        self._time_to_leave: TimeToSave | None = None
        """Of workers that have lost their connection: they save and leave."""

        self.durable: Mapping[int, int] = {}
        """How many events of each rank no power cut can lose; another thread replaces it."""

        self.training_ended: TrainingEnded | None = None
        """The last event of rank 0, once it has left its training loop."""

        self.has_stepped = False
        """Whether a step was done."""

        self.sees_steps = self._script is None
        """Whether the workers can act after a step: figures that a script prints are none."""

        self._stopped_before_training = False
        """Whether a stop began before the training did."""

        self.stop_reason = ""
        """Why the attempt is stopped without a command, for the user; empty otherwise."""

        self._finish_reason = ""
        """Why the run is finished before its length, as its settings say, in a sentence."""

        spec = plan.spec
        self._directions = direction_overrides(
            plan.recipe.metric_directions, spec.checkpoint_best, spec.early_stopping
        )
        self._early_stopping = EarlyStopping(spec, self._directions)
        """Of a script; the workers of a recipe decide themselves, at the end of an epoch."""

    def start(
        self, resume_from: str, *, is_restart: bool = False, waits_for_kernels: bool = False
    ) -> None:
        """Start the workers, from the checkpoint named `resume_from` unless that is empty.

        With `is_restart`, remove the points of earlier attempts even without a checkpoint. With
        `waits_for_kernels`, one that fails does so in the line that launches it.
        """
        folder, group = self._plan.folder, self._plan.control_group
        self.scratch = scratch_folder.make()
        goes_on = FROM_THE_BEGINNING
        if self._script and not self._resumes_by_calls:
            # Its checkpoints of ours hold weights that only the user can load.
            goes_on = self._script.goes_on() if resume_from == OWN else FROM_THE_BEGINNING
            is_restart, resume_from = bool(resume_from) or is_restart, ""
        rendezvous = folder / f"attempt-{self._store.status.attempt}.rendezvous"
        rendezvous.unlink(missing_ok=True)  # a used file holds addresses of dead processes
        extra = {
            environment.RENDEZVOUS: str(rendezvous),
            environment.RESUME: resume_from,
            environment.ATTEMPT: str(self._store.status.attempt),
            environment.SUPERVISOR: str(os.getpid()),
            environment.CONTROL_GROUP: str(group.folder) if group else "",
            environment.DEVICES: ",".join(self._plan.spec.devices),
            environment.ACCUMULATION: str(self._accumulation()),
            SCRATCH: str(self.scratch or ""),
        }
        if waits_for_kernels:
            extra[LAUNCH_BLOCKING] = "1"
        try:
            checkpoint_files.remove_unfinished(folder)
            if resume_from or is_restart:
                self._rewind(resume_from, goes_on)
            self._early_stopping = self._early_stopping_so_far()
            extra[EARLY_STOPPING] = self._early_stopping.state
            if self._script:
                extra |= self._script.environment(
                    len(self._plan.workers), goes_on, had_steps=self._store.status.step_seconds > 0
                )
            else:
                self._tell_of_versions()
            self._pool.start(extra)
            self._is_launching = True
        except (OSError, checkpoint_files.CheckpointDamaged) as error:
            self.fail(str(error))

    def _accumulation(self) -> int:
        plan = self._plan
        replicas = plan.strategy.replicas(plan.spec.slots)
        return accumulation_in_force(plan.spec, replicas, self._store.status.shrunk)

    def _early_stopping_so_far(self) -> EarlyStopping:
        """Return early stopping with what the store has of earlier attempts."""
        status, found = self._store.status, EarlyStopping(self._plan.spec, self._directions)
        for series in found.series:
            found.add_all(self._store.values(series, status.step))
        return found

    def _tell_of_versions(self) -> None:
        plan, attempt = self._plan, self._store.status.attempt
        framework = plan.strategy.framework
        for text in environment_notices(plan.folder, plan.spec, framework, attempt):
            self._store.append(Notice(text))

    def launched(self, item: Launch) -> None:
        """Handle a report about the start of the workers."""
        match item:
            case WorkerLaunched(rank, pid):
                devices = self._plan.workers[rank].devices
                _log.info("rank %d: started as pid %d on %s", rank, pid, devices)
                created = process.start_time(pid) if pid else 0.0
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
        if isinstance(message, Alive):
            self._doing[rank] = message.doing
            if message.doing == "checkpoint":
                self._saves[rank] = message
            elif message.doing == LOADING:
                self._deadlines.loads(rank, message)
        if self._all_exited:
            self._deadlines.all_exited()  # there may be more to read
        if isinstance(message, Event):
            self._handle_event(message)
        if isinstance(message, Metrics) and self._script and rank == 0:
            self._watch_script(message)

    def _watch_script(self, message: Metrics) -> None:
        """Finish a script whose metric does not improve any more."""
        for points in message.points:
            for step, value in zip(points.steps, points.values, strict=False):
                if points.series in self._early_stopping.series and (
                    reason := self._early_stopping.add(step, value, self._plan.folder)
                ):
                    self._finish(reason)

    def _check_limits(self) -> None:
        """Finish the run if it has reached a limit of time or energy."""
        status, spec = self._store.status, self._plan.spec
        if status.state is not RunState.RUNNING or self.is_stopping or self.training_ended:
            return
        if reason := limit_reached(spec, status, time.time()):
            self._finish(reason)
        elif spec.energy_limit_wh and (label := self._device_watch.without_power):
            self.stop_reason = (
                f"GPU {label} does not tell its power, so an energy limit cannot be kept: use a "
                "time limit. "
            )
            self.stop(Stop())

    def _finish(self, reason: str) -> None:
        """Save, and end the run as finished, because its settings say so."""
        if self.is_stopping or self.training_ended:
            return
        self._store.append(Notice(reason))
        self._finish_reason, self.stop_reason = reason, f"{reason} "
        self.stop(Stop())

    def machine_lost(self, machine: str, why: str) -> None:
        """Handle the loss of another machine of the run."""
        self.lost_machines[machine] = why
        self.fail(f"Machine {machine} was lost: {why}.")

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
        if not self.is_stopping:
            self._stopped_before_training = not self._training_started
        if command.now or (not is_training and not self._escalation.is_stopping):
            self._escalation.escalate_to("terminate")
        else:
            self._escalation.escalate_to("ask", status.step_seconds)

    def fail(self, sentence: str) -> None:
        """End the attempt for a reason that lies outside its workers."""
        _log.info("the attempt fails: %s", sentence)
        self._failure = Failure(-1, "", 0, "", sentence, "", "")

    def time_to_save(self, seconds: float) -> TimeToSave:
        """Return a limit that begins anew while the workers' save gets on."""
        return TimeToSave(seconds, self._save_progress, AwakeClock())

    def tick(self) -> None:
        """Check the deadlines and the hang watch; called in every turn of the main loop."""
        self._escalation.tick()
        self._check_limits()
        if self._time_to_leave and self._time_to_leave.left() <= 0:
            self._deadlines.leave_within(0.0)
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
        """Kill the remaining processes, and delete the files that they shared or left."""
        self._pool.end(kill=True)
        if self.scratch:
            scratch_folder.remove(self.scratch)
        if self._script:
            self._script.remove()
        with contextlib.suppress(OSError):  # the folder may be read-only, or out of reach by now
            for file in self._plan.folder.glob("attempt-*.rendezvous*"):
                file.unlink(missing_ok=True)

    def close(self) -> None:
        """Release what the processes, which have ended, were reached by."""
        self._pool.close()

    @property
    def shrunk(self) -> Shrunk | None:
        """How the next attempt is to go on, if this one has ended because of the memory."""
        if self._failure or self._plan.spec.on_oom != SHRINK:
            return None
        reports = self._failure_reports.values()
        return next((report.shrunk for report in reports if report.shrunk), None)

    @property
    def kernel_fault(self) -> bool:
        """Whether a kernel of a GPU has failed."""
        return any(report.kernel_fault for report in self._failure_reports.values())

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
            return RunEnded("stopped", self._how_it_was_stopped)
        workers = self._plan.workers
        logs = {worker.rank: self._pool.log_file(worker.rank) for worker in workers}
        if lost := self._device_watch.lost_device_to_blame():
            failure = lost_device_failure(lost, self._store.status, workers, logs)
        else:
            failure = find_failure(self._bad_exit_codes, self._failure_reports, workers, logs)
        return RunEnded("failed", failure.message, failure)

    def _end_without_failure(self, ended: TrainingEnded) -> RunEnded:
        unsaved = self._failed_checkpoint.text if self._failed_checkpoint else ""
        problem = " ".join(filter(None, [not_finite_sentence(self._store.status), unsaved]))
        if self._plan.spec.is_script:
            return self._end_of_script(ended, problem)
        if ended.completed:
            reason = ended.reason or _all_done(self._plan.spec)
            early = bool(ended.reason)
            return RunEnded("finished", f"{reason} {problem}".rstrip(), early=early)
        done = "Ended" if self._finish_reason else "Stopped"
        reason = f"{self.stop_reason}{done} after step {ended.step}"
        if not unsaved:
            reason += ", with a checkpoint saved"
        return self._ended_before_its_length(f"{reason}. {problem}".rstrip())

    def _ended_before_its_length(self, reason: str) -> RunEnded:
        if self._finish_reason:
            return RunEnded("finished", reason, early=True)
        return RunEnded("stopped", reason)

    @property
    def _how_it_was_stopped(self) -> str:
        """Say when workers that did not end their training by themselves were stopped.

        A training that began after the stop, and did no step, does not count.
        """
        if self._training_started and (self.has_stepped or not self._stopped_before_training):
            return f"{self.stop_reason}Stopped at once, {self._what_is_saved}."
        if step := self._store.status.step:
            return f"Stopped before the training went on after step {step}."
        return "Stopped before the training began."

    @property
    def _resumes_by_calls(self) -> bool:
        return resumes_by_calls(self._plan.spec, self._plan.recipe)

    @property
    def _what_is_saved(self) -> str:
        """What workers that had to be killed have left."""
        status = self._store.status
        if not status.step or status.checkpoint_step != status.step:
            return "without saving"
        is_bare = self._plan.spec.is_script and not self._resumes_by_calls
        what = "its weights" if is_bare else "a checkpoint"
        return f"with {what} saved after step {status.step}"

    def _end_of_script(self, ended: TrainingEnded, problem: str) -> RunEnded:
        early = self._early_stopping
        problem = f"{early.improved_later} {problem}".strip()
        if ended.completed:
            reason = "The command has ended by itself, with exit code 0."
            if self._finish_reason:
                reason = f"{self.stop_reason}{reason[:-1]}, before it could be stopped."
            if early.metric and not early.has_values:
                reason += f" Early stopping had no effect: it has logged no {early.metric!r}."
            return RunEnded("finished", f"{reason} {problem}".rstrip())
        where = f" after step {ended.step}" if ended.step else " before a step was seen"
        saved = ""
        if ended.step and self._store.status.checkpoint_step == ended.step:
            saved = ", with a checkpoint saved"
            if not self._resumes_by_calls:
                saved = ", with its weights saved"
        done = "Ended" if self._finish_reason else "Stopped"
        reason = f"{self.stop_reason}{done}{where}{saved}."
        return self._ended_before_its_length(f"{reason} {problem}".rstrip())

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
                self.sees_steps |= event.step_seconds > 0
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

    def _rewind(self, name: str, script: Continuation) -> None:
        """Remove what lies after the checkpoint `name`, or after where the `script` goes on."""
        # The caller has verified the checksums: see `engine.client.resume` and `CheckpointSearch`.
        folder = self._plan.folder
        position, metrics = checkpoint_files.Position(step=script.first_step), {}
        if name:
            manifest = checkpoint_files.read_manifest(folder / checkpoint_files.FOLDER / name)
            position, metrics = manifest.position, manifest.metrics
        checkpoint_files.rename_after(folder, position.step, self._store.status.attempt)
        self._store.rewind(position.step, validates_again=position.batch > 0)
        self._store.append(Rewound(position.step, name, position.epoch, metrics, script.file))
        self._step_bounds = StepBounds(position.step)

    def _save_progress(self) -> object:
        """Return what changes while a checkpoint is written."""
        return checkpoint_files.save_progress(self._plan.folder), dict(self._saves)

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
            text = (
                f"{late} did not start within {self._deadlines.start_seconds:.0f} s: "
                f"the logs in {self._plan.folder / 'logs'} say more."
            )
            if all(self._doing.get(rank) == CONNECTING for rank in late_ranks):
                text = f"{text} {gpu_links.advice(self._plan.spec.devices)}".rstrip()
            self.fail(text)
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
        if self._time_to_leave is None:
            self._time_to_leave = self.time_to_save(self._plan.spec.orphan_seconds + CUT_OFF_MARGIN)
        self.send(0, Stop())


def _all_done(spec: RunSpec) -> str:
    """Say that a run has reached the length of its spec."""
    if spec.steps:
        return "The one step is done." if spec.steps == 1 else f"All {spec.steps} steps are done."
    return "The one epoch is done." if spec.epochs == 1 else f"All {spec.epochs} epochs are done."


def _pool(plan: RunPlan, inbox: Inbox) -> WorkerPool | ClusterPool:
    if not plan.is_spread:
        return WorkerPool(plan, inbox.put)
    from engine.supervisor.machines.cluster_pool import ClusterPool  # most runs need none

    return ClusterPool(plan, inbox)
