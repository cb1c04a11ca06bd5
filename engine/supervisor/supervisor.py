"""The supervisor of one run: it owns the workers and the store, also without a window.

It writes the workers' reports to the store before it does anything else, passes commands to rank 0,
and ensures that the run ends with exactly one terminal event and no process remains.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

import msgspec

from engine.diagnosis.deadlines import AwakeClock
from engine.diagnosis.device_metrics import process_memory
from engine.diagnosis.device_watch import DeviceWatch
from engine.diagnosis.process_memory import ProcessMemory
from engine.facts.recorder import Code, FactsRecorder
from engine.messages.channel import CLOSED, Channel, CommandAccepted, Flush, Flushed, Message
from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    AttemptStarted,
    CommandReceived,
    CommandRefused,
    Event,
    Notice,
    Paused,
    Queued,
    Restarting,
    RunEnded,
    Trouble,
)
from engine.messages.heartbeat import Heartbeat
from engine.processes import children, process
from engine.processes.control_group import ControlGroup
from engine.processes.machine import this_machine
from engine.processes.process_tree import Identity
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import BEGINNING, OWN
from engine.runs.run_state import RunState
from engine.scripts.secrets import secret_values
from engine.spec import catalog, recipe_copy, spec_file
from engine.spec.device_names import machine_of, machines_of
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import resumes_by_calls
from engine.supervisor.attempt import Attempt
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.command_policy import refusal
from engine.supervisor.guardian_process import GuardianProcess
from engine.supervisor.inbox import (
    Connected,
    Disconnected,
    Inbox,
    InboxItem,
    LaunchedCold,
    LaunchEnded,
    LaunchFailed,
    MachineLost,
    MemoryMeasured,
    MessageReceived,
    SignalReceived,
    SnapshotReceived,
    Told,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.machines.machine_search import MachineSearch
from engine.supervisor.message_validation import is_valid
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.restart_policy import CheckpointSearch, RestartPolicy
from engine.supervisor.unrecorded import record_unrecorded
from engine.supervisor.worker_pool import RunPlan
from engine.system.keep_awake import SleepInhibitor
from engine.telemetry.helper_client import TelemetryStream
from engine.telemetry.snapshot import Snapshot
from engine.training.kernel_faults import LAUNCH_BLOCKING, is_blocking

_log = logging.getLogger(__name__)

COMMIT_SECONDS = 0.1

ACKNOWLEDGE_SECONDS = 1.0
"""Time between two messages that tell a worker which of its events are durable."""

EXIT_SECONDS = 5.0
"""Time for the killed processes of a pool to exit."""

MOST_LOSSES = 3
"""Attempts in turn without a step that may lose a machine."""

SEARCH_SECONDS = 600.0
"""The longest training that is repeated to find the line of a kernel that failed."""

_SEARCH = (
    "The steps since the newest checkpoint are done once more, and Python waits for each kernel "
    f"({LAUNCH_BLOCKING}=1), which names the line. If no kernel fails then, the run goes on so, "
    "more slowly: stop and resume it to end that."
)

PASSING_SECONDS = 5.0
"""Time in which a trouble of the disk may pass, unless it is full, before the training pauses."""

LAST_SAVE_SECONDS = 120.0
"""Time for the workers to save and to end after an error of this program, and once more while the
save gets on."""


class Supervisor:
    """The main loop. All state is used by the main thread only."""

    def __init__(
        self,
        folder: Path,
        spec: RunSpec,
        store: BufferedStore,
        inbox: Inbox,
        admission: QueueAdmission,
        control_group: ControlGroup | None = None,
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._store = store
        store.secrets = secret_values(os.environ, spec.secret_variables)
        self._inbox = inbox
        self._admission = admission
        self._wakefulness = SleepInhibitor(f"run {folder.name} trains")
        recipe = recipe_copy.recipe_of_run(folder, spec)
        strategy = catalog.strategy(spec.strategy, recipe)
        pool = strategy.pool(spec.slots)
        self._all_devices = spec.devices
        """Also those of machines that were lost."""

        self._plan = RunPlan(folder, spec, recipe, strategy, pool, control_group)
        self._device_watch = DeviceWatch(spec.devices, energy=store.status.energy)
        self._process_memory: ProcessMemory | None = None
        self._facts = FactsRecorder(folder, _code(spec, recipe))
        self._restart_policy = RestartPolicy(spec.max_restarts)
        self._disk_trouble_reported = self._disk_trouble_handled = False
        self._disk_trouble_since = 0.0
        self._has_passing_trouble = False
        self._is_paused_by_user = False
        self._heartbeat = Heartbeat(folder)
        self._acknowledge_at = 0.0
        self._guardian = GuardianProcess(
            spec.orphan_seconds, folder / checkpoint_files.FOLDER, control_group
        )
        self._waits_for_kernels = False
        """Whether workers are started so that a kernel that fails is found."""

        self._losses = 0
        """Attempts in turn without a step that have lost a machine."""

        self._elsewhere: dict[str, Snapshot] = {}
        """The newest state of the devices of each other machine."""

        self._attempt = self._new_attempt()

    def run(self, resume_from: str = "") -> RunEnded:
        """Train until the run ends; return the terminal event, which is recorded already.

        Continue from the checkpoint with the name `resume_from`, unless that is empty; BEGINNING:
        start again, without the points of earlier attempts.
        """
        telemetry: TelemetryStream | None = None
        try:
            # First: the workers start during the rest.
            if resume_from == BEGINNING:
                self._attempt.start("", is_restart=True)
            else:
                self._attempt.start(resume_from)
            telemetry = TelemetryStream(
                lambda snapshot: self._inbox.put(SnapshotReceived(snapshot))
            )
            self._measure_memory()
            self._facts.begin(self._store.status.attempt)
            self._store.prepare_for_points()
            ended = self._follow_attempt()
            while ended.failure and self._may_restart(ended):
                if self._attempt.lost_machines:
                    self._store.append(Notice(ended.failure.message))
                elif shrunk := self._attempt.shrunk:
                    self._store.append(shrunk)
                elif self._attempt.kernel_fault:
                    self._waits_for_kernels = True
                    self._store.append(Notice(f"{ended.failure.message} {_SEARCH}"))
                else:
                    done, most = self._restart_policy.count, self._restart_policy.limit
                    self._store.append(Restarting(ended.failure, done, most))
                self._restart()
                ended = self._follow_attempt()
        except Exception as error:  # the verdict tells it; such as a limit for processes
            ended = self._end_after(error)
        finally:
            self._attempt.kill()
            self._attempt.close()
            if telemetry is not None:
                telemetry.close()
            if self._process_memory is not None:
                self._process_memory.close()
            self._end_leftovers()
            self._wakefulness.keep(False)
            self._guardian.end()
        if remark := self._restart_policy.refusal or self._restore_settings(ended):
            ended = RunEnded(ended.state, f"{ended.reason} {remark}", ended.failure)
        self._store.append(ended)
        self._store.close()
        return ended

    def end_facts(self) -> None:
        """Wait for a moment for the facts of a run that was over in no time."""
        self._facts.end()

    def _end_after(self, error: Exception) -> RunEnded:
        """Let the workers save a checkpoint after an error of this program; return the verdict."""
        with contextlib.suppress(OSError):  # the log is on a disk that may have failed
            traceback.print_exc()
        text = f"The supervisor of the run failed: {str(error) or type(error).__name__}."
        if self._store.status.state not in (RunState.RUNNING, RunState.PAUSED):
            self._attempt.fail(text)  # there is nothing to save
            return self._attempt.verdict()
        self._store.append(Notice(text))
        self._attempt.stop(Stop())
        limit = self._attempt.time_to_save(LAST_SAVE_SECONDS)
        while not self._attempt.is_over and limit.left() > 0:
            try:
                if item := self._inbox.next(COMMIT_SECONDS):
                    self._handle(item)
                self._attempt.tick()
                self._store.commit()
            except Exception:  # the same error, perhaps: the workers save nevertheless
                _log.exception("the supervisor failed again")
        ended = self._attempt.verdict()
        self._attempt.fail(text if ended.failure else f"{text} {ended.reason}")
        return self._attempt.verdict()

    def _restore_settings(self, ended: RunEnded) -> str:
        """Undo a change of settings or recipe if the run failed before its first step with it.

        A resumed run would fail in the same way. Return a sentence for the user; empty: no change.
        """
        if ended.failure is None or self._attempt.has_stepped or self._restart_policy.count:
            return ""
        attempt = self._store.status.attempt
        with contextlib.suppress(OSError):  # the user can still change them back
            recipe = recipe_copy.restore_copy(self._folder, attempt)
            if spec_file.restore_spec(self._folder, attempt):
                self._store.keep_files()
                return f"Its previous {'recipe and ' if recipe else ''}settings were restored."
        return ""

    def _follow_attempt(self) -> RunEnded:
        """Loop until the attempt is over, end its processes, and return the verdict."""
        while not self._attempt.is_over:
            self._process_inbox()
            self._attempt.tick()
            self._check_disk()
            status = self._store.status
            self._admission.release_freed(status)
            is_paused = status.state is RunState.PAUSED
            self._wakefulness.keep(self._spec.keep_awake and not is_paused)
        ended = self._attempt.verdict()
        self._attempt.kill()
        clock = AwakeClock()
        while not self._attempt.is_drained and clock() < EXIT_SECONDS:
            self._process_inbox()
        self._attempt.close()
        self._end_leftovers()
        return ended

    def _end_leftovers(self) -> None:
        """End what the workers have started and left."""
        if self._plan.control_group:
            self._plan.control_group.end(children.END_SECONDS)
        children.end_adopted()

    def _may_restart(self, ended: RunEnded) -> bool:
        attempt = self._attempt
        if (
            attempt.is_stopping
            or self._device_watch.lost_device_to_blame()
            or self._store.is_missing()
        ):
            return False
        if attempt.lost_machines:
            # A machine that is lost again before a step has another fault than its network.
            self._losses = 1 if attempt.has_stepped else self._losses + 1
            return attempt.is_drained and self._losses <= MOST_LOSSES
        if attempt.shrunk:  # bounded: the parts of a batch end at one sample
            return attempt.is_drained
        if attempt.kernel_fault:
            return attempt.is_drained and self._may_search_kernel()
        if not attempt.has_stepped and not self._restart_policy.count:
            return False  # an attempt that fails before its first step would fail again
        # A process that cannot be killed may still hold its device.
        if ended.failure is None or not attempt.is_drained:
            return False
        return self._restart_policy.grant(attempt.failure_point(ended.failure))

    def _may_search_kernel(self) -> bool:
        """Whether to repeat the steps since the newest checkpoint, to find a kernel that failed."""
        status = self._store.status
        steps = status.step - max(0, status.checkpoint_step)
        is_short = steps * status.step_seconds <= SEARCH_SECONDS
        return is_short and not (self._waits_for_kernels or is_blocking())

    def _restart(self) -> None:
        """Start the next attempt from the newest intact checkpoint, unless the run is stopped."""
        record_unrecorded(self._folder, self._store.status, self._store.append)
        lost = bool(self._attempt.lost_machines)
        pid = os.getpid()
        number = self._store.status.attempt + 1
        self._store.append(AttemptStarted(number, pid, process.start_time(pid), this_machine()))
        self._is_paused_by_user = False
        self._attempt = self._new_attempt()  # a Stop during the search is noted here
        search = CheckpointSearch(self._folder)
        search.join(COMMIT_SECONDS)  # it mostly takes less
        while search.is_alive() and not self._attempt.is_stopping:
            self._process_inbox()
        if self._all_devices != self._plan.spec.devices or lost:
            self._find_machines()
        if not self._attempt.is_stopping:
            self._attempt = self._new_attempt()  # the search must not count as start-up time
            if search.problem:  # without a checkpoint, all points would be removed
                self._attempt.fail(
                    f"The checkpoints could not be read ({search.problem}), so the run was not "
                    "restarted: resume it once they can be read."
                )
                return
            if problem := self._copy_problem():
                self._attempt.fail(problem)
                return
            found = search.found
            if self._spec.is_script and not resumes_by_calls(self._spec, self._plan.recipe):
                found = OWN
            self._attempt.start(found, is_restart=True, waits_for_kernels=self._waits_for_kernels)
            self._facts.begin(self._store.status.attempt)

    def _find_machines(self) -> None:
        """Plan the next attempt for the machines that answer, once there are enough of them."""
        machines = [machine for machine in machines_of(self._all_devices) if machine]
        search = MachineSearch(machines, self._spec.min_machines)
        told: tuple[str, ...] = ()
        while search.is_alive() and not self._attempt.is_stopping:
            self._process_inbox()
            if search.missing != told:
                told = search.missing
                self._store.append(Queued((), _waits_for(told, self._spec.min_machines)))
        search.end()
        if told:
            self._store.append(Queued((), ""))
        if search.found is None:
            return
        there = {"", *search.found}
        devices = tuple(each for each in self._all_devices if machine_of(each) in there)
        if devices != self._plan.spec.devices:
            count = len(there)
            which = "this machine alone" if count == 1 else f"{count} machines"
            self._store.append(Notice(f"The run goes on on {which}: {', '.join(devices)}."))
        self._elsewhere.clear()
        spec = msgspec.structs.replace(self._plan.spec, devices=devices)
        pool = self._plan.strategy.pool(spec.slots)
        self._plan = self._plan._replace(spec=spec, workers=pool)

    def _copy_problem(self) -> str:
        """Return in a sentence why the copy of the recipe must not train; empty if it may."""
        try:
            return recipe_copy.copy_problem(self._folder, self._store.kept_files())
        except OSError as error:
            return f"The run's copy of its recipe cannot be read ({error}): it was not restarted."

    def _new_attempt(self) -> Attempt:
        return Attempt(self._plan, self._store, self._device_watch, self._inbox)

    def _process_inbox(self) -> None:
        """Handle the items of the inbox until the next commit is due, then commit."""
        if not self._store.is_behind:
            self._heartbeat.beat()
        due = time.monotonic() + COMMIT_SECONDS
        had_stepped = self._attempt.has_stepped
        while (remaining := due - time.monotonic()) > 0:
            item = self._inbox.next(remaining)
            if item is not None:
                self._handle(item)
            if self._attempt.has_stepped and not had_stepped:
                if self._process_memory is not None:
                    self._process_memory.note_first_step()
                break  # the user waits for the first step
        self._store.commit()
        if time.monotonic() >= self._acknowledge_at:
            self._acknowledge_at = time.monotonic() + ACKNOWLEDGE_SECONDS
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Tell the workers what is durable by now, and note what will be after the next sync."""
        attempt, recorded = self._attempt, self._store.recorded()
        attempt.acknowledge()

        def note() -> None:
            attempt.durable = recorded

        if recorded and recorded != attempt.durable:
            self._store.when_durable(note)

    def _handle(self, item: InboxItem) -> None:
        attempt = self._attempt
        match item:
            case Connected(hello, channel):
                attempt.connected(hello.rank, channel)
            case MessageReceived(rank, channel, message):
                if rank < 0:
                    self._handle_request(channel, message)
                    return
                if isinstance(message, Event):  # also one that is not valid: see `EventSender`
                    self._store.count(rank)
                if is_valid(message, rank, len(self._plan.workers)):
                    attempt.received(rank, message)
                    if isinstance(message, Paused):
                        self._admission.stays_paused()
                    if isinstance(message, Flush):
                        self._flush(channel, message)
            case Disconnected(rank):
                attempt.disconnected(rank)
            case WorkerLaunched(pid=pid):
                if attempt.scratch:
                    self._guardian.remove_at_end(attempt.scratch)
                if pid:
                    self._guardian.watch(pid, process.start_time(pid))
                attempt.launched(item)
            case LaunchedCold() | LaunchFailed() | LaunchEnded():
                attempt.launched(item)
            case WorkerExited(rank, code):
                attempt.exited(rank, code)
            case MachineLost(machine, why):
                attempt.machine_lost(machine, why)
            case SnapshotReceived(snapshot, machine) if machine:
                self._elsewhere[machine] = snapshot
            case SnapshotReceived(snapshot):
                snapshot = self._with_other_machines(snapshot)
                self._facts.show_snapshot(snapshot)
                self._store.device_names |= snapshot.display_names()
                for event in self._device_watch.add_snapshot(snapshot, self._store.status):
                    self._store.append(event)
            case MemoryMeasured(measurement, machine):
                if self._store.status.state is RunState.RUNNING:
                    step = self._store.status.step
                    self._store.append(process_memory(measurement, step, machine))
            case SignalReceived(signal):
                self._store.append(Notice(f"The supervisor got {signal}: the run is stopped."))
                attempt.stop(Stop())
            case Told(text):
                self._store.append(Notice(text))
            case _:
                assert_never(item)

    def _with_other_machines(self, snapshot: Snapshot) -> Snapshot:
        """Add the devices of the other machines, as they were last heard of."""
        others = [
            device
            for machine, other in self._elsewhere.items()
            if machine not in self._attempt.lost_machines
            for device in other.devices
        ]
        return msgspec.structs.replace(snapshot, devices=(*snapshot.devices, *others))

    def _measure_memory(self) -> None:
        """Measure the processes of a run on the CPU, from its first step on."""
        if self._device_watch.uses_cpu:
            self._process_memory = ProcessMemory(
                self._training_workers, lambda measured: self._inbox.put(MemoryMeasured(measured))
            )

    def _training_workers(self) -> list[Identity]:
        """Return the processes of a run that trains now, with their start times; none otherwise."""
        status = self._store.status
        if status.state is not RunState.RUNNING:
            return []
        workers = zip(status.worker_pids, status.workers_created, strict=False)
        return [(pid, created) for pid, created in workers if pid]

    def _flush(self, channel: Channel, message: Flush) -> None:
        def answer() -> None:
            with contextlib.suppress(*CLOSED):  # the inbox will report that the connection ended
                channel.send(Flushed(message.number))

        self._store.when_durable(answer)

    def _handle_request(self, channel: Channel, message: Message) -> None:
        if not isinstance(message, Command):
            return
        name = type(message).__name__
        answer: Message
        if reason := self._refusal(message):
            answer = CommandRefused(name, reason)
            _log.info("refuses %s: %s", message, reason)
            self._store.append(answer)
        else:
            self._store.append(CommandReceived(name))
            answer = CommandAccepted(self._store.last_seq())
            _log.info("command %d: accepts %s", answer.seq, message)
            self._execute(msgspec.structs.replace(message, number=answer.seq))
        self._store.commit()
        with contextlib.suppress(*CLOSED):  # the sender may be gone; the command is carried out
            channel.send(answer)

    def _refusal(self, command: Command) -> str:
        reason = refusal(
            command,
            self._store.status,
            self._spec,
            self._plan.strategy,
            accepts_commands=self._attempt.accepts_commands,
            training_ended=self._attempt.training_ended is not None,
            sees_steps=self._attempt.sees_steps,
        )
        if reason or not isinstance(command, Resume):
            return reason
        if problem := self._store.write_problem:
            advice = (
                "make room, then resume" if self._store.is_full else "it goes on by itself then"
            )
            return f"The run folder {self._folder} cannot be written yet ({problem}): {advice}."
        return self._admission.reacquire()

    def _execute(self, command: Command) -> None:
        match command:
            case Stop():
                self._attempt.stop(command)
            case SaveCheckpoint() | EmptyCache() | Pause() | Resume():
                if isinstance(command, Pause | Resume):
                    self._is_paused_by_user = isinstance(command, Pause)
                self._attempt.send(0, command)
            case _:
                assert_never(command)

    def _check_disk(self) -> None:
        if self._store.is_missing():
            self._attempt.fail(
                f"The run folder {self._folder} was deleted or moved: nothing more can be kept of "
                "the run, so it was ended. If it was moved, move it back, and resume the run: it "
                "goes on from its last checkpoint."
            )
        problem = self._store.write_problem
        if bool(problem) != self._disk_trouble_reported:
            self._disk_trouble_reported = bool(problem)
            self._disk_trouble_since = time.monotonic()
            self._has_passing_trouble |= bool(problem) and not self._store.is_full
            self._store.append(Trouble("disk", self._disk_text(problem), raised=bool(problem)))
        if not problem:
            self._disk_trouble_handled = False
            self._resume_after_trouble()
        elif not self._disk_trouble_handled and self._store.status.state is RunState.RUNNING:
            seconds = time.monotonic() - self._disk_trouble_since
            if not self._store.is_full and seconds < PASSING_SECONDS:
                return  # a lock, or a file server that starts again: nothing is lost meanwhile
            self._disk_trouble_handled = True
            if self._spec.on_disk_full == "pause":
                self._attempt.send(0, Pause())
            else:
                self._attempt.stop_reason = f"The run folder could not be written: {problem}. "
                self._attempt.stop(Stop())

    def _resume_after_trouble(self) -> None:
        """Go on if a trouble that has passed paused the training: its supervisor, or the workers
        that could not save a checkpoint. A disk that was full needs the user."""
        if not self._has_passing_trouble:
            return
        is_paused = self._store.status.state is RunState.PAUSED
        if is_paused and not self._is_paused_by_user:
            self._attempt.send(0, Resume())
        # Workers in a checkpoint may pause somewhat later.
        is_long_ago = time.monotonic() - self._disk_trouble_since > PASSING_SECONDS
        self._has_passing_trouble = not (is_paused or is_long_ago)

    def _disk_text(self, problem: str) -> str:
        if problem:
            consequence = "is paused: make room, then resume it"
            if not self._store.is_full:
                consequence = "pauses if that lasts, and goes on by itself afterwards"
            if self._spec.on_disk_full == "stop":
                consequence = "is stopped"
            return (
                f"The run folder {self._folder} cannot be written: {problem}. The training "
                f"{consequence}. New events and points are kept in memory meanwhile."
            )
        dropped = self._store.pop_dropped_count()
        lost = f"{dropped} points did not fit into memory" if dropped else "nothing was lost"
        return f"The run folder {self._folder} can be written again: {lost}."


def _waits_for(machines: Sequence[str], fewest: int) -> str:
    """Say which machines are missing; empty: none is."""
    if not machines:
        return ""
    names = ", ".join(machines)
    more = "" if fewest else " With a lower Min machines, it would go on without it."
    return f"Waits for {names}, which {'is' if len(machines) == 1 else 'are'} lost.{more}"


def _code(spec: RunSpec, recipe: RecipeInfo) -> Code:
    """Return what is trained, and with what, for the facts of the run."""
    folder: Path | None = Path(recipe.path).parent
    if spec.is_script and not Path(recipe.path).is_absolute():
        folder = Path(spec.working_folder) if spec.working_folder else None
    elif recipe.builtin:
        folder = None
    return Code(folder, spec.interpreter, spec.devices, spec.secret_variables)
