"""Finds the curves, the alarms and the lost devices of one run in the snapshots of the devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.diagnosis.deadlines import AwakeClock
from engine.diagnosis.device_metrics import DeviceRecorder
from engine.diagnosis.root_cause import tail
from engine.diagnosis.run_devices import RunDevices
from engine.messages.events import (
    Alarm,
    EpochEnded,
    Event,
    Failure,
    Progress,
    Resumed,
    TrainingStarted,
)
from engine.runs.run_state import RunState, RunStatus
from engine.spec.strategy import WorkerPlan
from engine.telemetry.alarm_text import lost_reason
from engine.telemetry.alarms import Alarms
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

CONFIRMING_SNAPSHOTS = 2
"""Consecutive snapshots that must report a device as lost."""

STEP_TIMEOUT = 10.0
"""Seconds without a step after which a lost device ends the run; ten steps if that is longer."""

OTHER_TIMEOUT = 600.0
"""The same while the next event is no step: a validation or the first step may take long."""


@dataclass
class _LostDevice:
    """A device of the run that the driver reports as lost."""

    device: DeviceSnapshot
    snapshots: int = 0
    training_continues: bool = False
    """Steps were done after the loss was confirmed: the device works, but the telemetry cannot
    reach it. This happens in containers."""

    since: float = 0.0
    """Time of the confirmation, or of a later resume of the run."""


class DeviceWatch:
    """Collects snapshots and events of a run; decides what to record and when the run must end.

    Times are seconds of `clock`, which does not count a sleep of the machine: after a sleep, a
    driver needs some time to find its devices.
    """

    def __init__(
        self,
        devices: Sequence[str],
        clock: Callable[[], float] | None = None,
        energy: float = 0.0,
    ) -> None:
        """`devices` by their names in the spec; `energy`: watt-hours of earlier attempts."""
        self._clock = clock or AwakeClock()
        self._devices = RunDevices(devices)
        self._recorder = DeviceRecorder(devices, energy)
        self._alarms = Alarms()
        self._lost_devices: dict[str, _LostDevice] = {}
        self._steps_per_epoch = self._epochs = self._total_steps = 1
        self._step_is_due = False
        self._step = 0

    def add_event(self, event: Event) -> None:
        """Note the progress of the training."""
        match event:
            case TrainingStarted(step, steps_per_epoch, epochs, total_steps=total_steps):
                self._step, self._epochs, self._total_steps = step, epochs, total_steps
                self._steps_per_epoch = max(1, steps_per_epoch)
                self._step_is_due = False  # the first step may compile for minutes
            case Progress(step=step) if step > self._step:
                self._step = step
                # After an epoch's last step a validation follows. Steps are counted from the end of
                # the training, because after a resume the first epochs may have another length.
                until_end = self._total_steps - step
                until_epoch = until_end if self._epochs else step
                self._step_is_due = bool(until_end) and until_epoch % self._steps_per_epoch != 0
                for lost in self._lost_devices.values():
                    lost.training_continues |= lost.snapshots >= CONFIRMING_SNAPSHOTS
            case EpochEnded(epoch):
                # The last checkpoint follows otherwise.
                self._step_is_due = epoch < self._epochs or (
                    not self._epochs and self._step < self._total_steps
                )
            case Resumed():
                for lost in self._lost_devices.values():
                    lost.since = self._clock()
            case _:
                pass

    @property
    def without_power(self) -> str:
        """The label of a device that does not tell its power; empty: there is none."""
        return self._recorder.without_power

    @property
    def uses_cpu(self) -> bool:
        """Whether the run trains on the CPU, whose memory is that of the machine."""
        return "cpu" in self._devices.ids

    def add_snapshot(self, snapshot: Snapshot, status: RunStatus) -> list[Event]:
        """Return the alarms and points of the run that follow from `snapshot`."""
        run_snapshot = Snapshot(time=snapshot.time, devices=self._devices.rows(snapshot))
        for device in run_snapshot.devices:
            # A reason that holds for all GPUs is a problem of the driver, not of this device.
            if device.lost is None or device.lost != snapshot.gpu_note:
                self._note_lost(device)
        is_running = status.state is RunState.RUNNING
        busy = self._devices.ids if is_running and self._step_is_due else frozenset()
        events: list[Event] = [
            Alarm(alarm.device, alarm.kind.value, text, is_raised)
            for alarm, is_raised, text in self._alarms.update(run_snapshot, busy)
        ]
        if is_running:
            events.append(self._recorder.metrics(snapshot, status.step))
        return events

    def fatal_lost_device(self, status: RunStatus) -> DeviceSnapshot | None:
        """Return the lost device that stops the run; None if there is none.

        The driver's report alone is not enough: while steps are done, the device works.
        """
        now = self._clock()
        if status.state is RunState.PAUSED:
            return None  # a paused run does not need its devices
        timeout = max(STEP_TIMEOUT, 10 * status.step_seconds)
        if not self._step_is_due:
            timeout = max(timeout, OTHER_TIMEOUT)
        for lost in self._lost_devices.values():
            is_confirmed = lost.snapshots >= CONFIRMING_SNAPSHOTS and not lost.training_continues
            if is_confirmed and now - lost.since >= timeout:
                return lost.device
        return None

    def lost_device_to_blame(self) -> DeviceSnapshot | None:
        """Return the lost device that explains a failure now; None if steps went on without it."""
        losses = self._lost_devices.values()
        return next((lost.device for lost in losses if not lost.training_continues), None)

    def _note_lost(self, device: DeviceSnapshot) -> None:
        if device.lost is None:
            self._lost_devices.pop(device.id, None)
            return
        lost = self._lost_devices.setdefault(device.id, _LostDevice(device))
        lost.snapshots += 1
        if lost.snapshots <= CONFIRMING_SNAPSHOTS:
            lost.since = self._clock()


def lost_device_failure(
    device: DeviceSnapshot,
    status: RunStatus,
    plans: Sequence[WorkerPlan],
    logs: Mapping[int, Path],
) -> Failure:
    """Return the failure of a run that has lost `device`. `logs` holds the log files by rank."""
    rank = next((plan.rank for plan in plans if device.id in plan.devices), -1)
    advice = (
        f"The last checkpoint is of step {status.checkpoint_step}: resume the run when the GPU is "
        "back, or go on from there on other devices."
        if status.checkpoint_step >= 0
        else "There is no checkpoint yet: start it anew on other devices."
    )
    message = (
        f"GPU {device.label} stopped answering, so the run was ended. "
        f"{lost_reason(device)} {advice}"
    )
    return Failure(rank, device.id, 0, "", message, "", tail(logs[rank]) if rank in logs else "")
