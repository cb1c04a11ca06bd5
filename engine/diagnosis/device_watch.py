"""What the snapshots of the devices mean for one run: its curves, its alarms, and a lost GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.diagnosis.deadlines import AwakeClock
from engine.diagnosis.device_metrics import DeviceRecorder, run_device_ids
from engine.diagnosis.root_cause import tail
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
from engine.telemetry.alarm_text import why_lost
from engine.telemetry.alarms import Alarms
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

SURE_AFTER = 2
"""Consecutive snapshots that must say that a device is lost."""

STEP_PATIENCE = 10.0
"""Seconds without a step after which a lost device is lost for the run; ten steps if longer."""

OTHER_PATIENCE = 600.0
"""The same while no step is due: a validation, or the first step, may take long."""


@dataclass
class _Loss:
    """A device of the run that the driver reports as lost."""

    device: DeviceSnapshot
    snapshots: int = 0
    trains_on: bool = False
    """Steps came in after that: only the telemetry has lost it, as it happens in containers."""

    quiet_since: float = 0.0
    """Since when nothing speaks for the device."""


class DeviceWatch:
    """Takes every snapshot and every event; says what to record, and when the run must end.

    Times are seconds of `clock`, which counts no sleep of the machine: after one, drivers take a
    while to find their devices again.
    """

    def __init__(self, devices: Sequence[str], clock: Callable[[], float] | None = None) -> None:
        """`devices` by their names in the spec."""
        self._clock = clock or AwakeClock()
        self._wanted = run_device_ids(devices)
        self._recorder = DeviceRecorder(devices)
        self._alarms = Alarms()
        self._losses: dict[str, _Loss] = {}
        self._steps_per_epoch = self._epochs = self._total_steps = 1
        self._step_is_due = False
        self._step = 0

    def follow(self, event: Event) -> None:
        """Note how the training goes."""
        match event:
            case TrainingStarted(step, steps_per_epoch, epochs, total_steps=total_steps):
                self._step, self._epochs, self._total_steps = step, epochs, total_steps
                self._steps_per_epoch = max(1, steps_per_epoch)
                self._step_is_due = False  # the first step may compile for minutes
            case Progress(step=step) if step > self._step:
                self._step = step
                # Else a validation follows. Epochs are counted from the end, where they are alike.
                self._step_is_due = (self._total_steps - step) % self._steps_per_epoch != 0
                for loss in self._losses.values():
                    loss.trains_on |= loss.snapshots >= SURE_AFTER
            case EpochEnded(epoch):
                self._step_is_due = epoch < self._epochs  # else the last checkpoint follows
            case Resumed():
                for loss in self._losses.values():
                    loss.quiet_since = self._clock()
            case _:
                pass

    def take(self, snapshot: Snapshot, status: RunStatus) -> list[Event]:
        """What `snapshot` adds to the run's record."""
        own = Snapshot(
            time=snapshot.time, devices=tuple(d for d in snapshot.devices if d.id in self._wanted)
        )
        for device in own.devices:
            # Where the driver says nothing of any GPU, nothing is known of this one.
            if device.lost is None or device.lost != snapshot.gpu_note:
                self._count_loss(device)
        runs = status.state is RunState.RUNNING
        at_work = self._wanted if runs and self._step_is_due else frozenset()
        events: list[Event] = [
            Alarm(alarm.device, alarm.kind.value, text, is_raised)
            for alarm, is_raised, text in self._alarms.take(own, at_work)
        ]
        if runs:
            events.append(self._recorder.metrics(own, status.step))
        return events

    def fatal_loss(self, status: RunStatus) -> DeviceSnapshot | None:
        """The device without which the run cannot go on, if there is one.

        The driver's word alone is not enough: while steps come in, the device works.
        """
        now = self._clock()
        if status.state is RunState.PAUSED:
            return None  # a run that waits needs no device
        patience = max(STEP_PATIENCE, 10 * status.step_seconds)
        if not self._step_is_due:
            patience = max(patience, OTHER_PATIENCE)
        for loss in self._losses.values():
            is_sure = loss.snapshots >= SURE_AFTER and not loss.trains_on
            if is_sure and now - loss.quiet_since >= patience:
                return loss.device
        return None

    def suspect(self) -> DeviceSnapshot | None:
        """The device to blame if the run has just failed: lost, and no step came after that."""
        losses = (loss for loss in self._losses.values() if not loss.trains_on)
        return next((loss.device for loss in losses), None)

    def _count_loss(self, device: DeviceSnapshot) -> None:
        if device.lost is None:
            self._losses.pop(device.id, None)
            return
        loss = self._losses.setdefault(device.id, _Loss(device))
        loss.snapshots += 1
        if loss.snapshots <= SURE_AFTER:
            loss.quiet_since = self._clock()


def loss_failure(
    device: DeviceSnapshot,
    status: RunStatus,
    plans: Sequence[WorkerPlan],
    logs: Mapping[int, Path],
) -> Failure:
    """The failure of a run that has lost `device`."""
    rank = next((plan.rank for plan in plans if device.id in plan.devices), -1)
    saved = (
        f"The last checkpoint is of step {status.checkpoint_step}: resume the run when the GPU is "
        "back, or go on from there on other devices."
        if status.checkpoint_step >= 0
        else "There is no checkpoint yet: start it anew on other devices."
    )
    message = (
        f"GPU {device.label} ({device.id}) stopped answering, so the run was ended. "
        f"{why_lost(device)} {saved}"
    )
    return Failure(rank, device.id, 0, "", message, "", tail(logs[rank]) if rank in logs else "")
