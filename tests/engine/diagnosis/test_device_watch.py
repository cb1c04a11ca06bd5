"""What snapshots mean for a run: its points, its alarms, and when a lost GPU ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.diagnosis.deadlines import AwakeClock
from engine.diagnosis.device_watch import (
    OTHER_TIMEOUT,
    STEP_TIMEOUT,
    DeviceWatch,
    lost_device_failure,
)
from engine.messages.events import (
    Alarm,
    EpochEnded,
    Event,
    Metrics,
    Paused,
    Progress,
    Resumed,
    TrainingStarted,
)
from engine.runs.run_state import RunStatus, fold
from engine.spec.strategy import WorkerPlan
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.sentences import sentence

GPU, OTHER = "GPU-1111", "GPU-2222"
LOST = "The GPU fell off the bus."


def progress(step: int, step_seconds: float = 0.01) -> Progress:
    return Progress(1 + (step - 1) // 10, step, 100.0, step_seconds, 60.0)


class Run:
    """A run of ten steps an epoch on GPU, whose events and snapshots are passed to the watch."""

    def __init__(self) -> None:
        self.watch = DeviceWatch((GPU,), lambda: self.now)
        self.status = RunStatus()
        self.now = 100.0

    def happen(self, *events: Event) -> None:
        for event in events:
            self.watch.add_event(event)
            self.status = fold(self.status, event, self.now)

    def train(self, step: int = 3, step_seconds: float = 0.01) -> None:
        self.happen(TrainingStarted(0, 10, 3, 1, 1234), progress(step, step_seconds))

    def see(self, **known: Any) -> list[Event]:
        """Add a snapshot, a second later: of this GPU, and of another that is always lost."""
        self.now += 1.0
        ours = DeviceSnapshot(id=GPU, kind="gpu", label="3", name="G", **known)
        other = DeviceSnapshot(id=OTHER, kind="gpu", label="4", name="G", lost=LOST)
        snapshot = Snapshot(time=1e9 + self.now, devices=(ours, other))
        return self.watch.add_snapshot(snapshot, self.status)

    def lose(self) -> None:
        for _ in range(2):
            self.see(lost=LOST)

    def is_fatal(self, after: float) -> bool:
        """Whether the run must end, `after` seconds from now."""
        now = self.now
        self.now += after
        lost = self.watch.fatal_lost_device(self.status)
        self.now = now
        return lost is not None


@pytest.fixture
def run() -> Run:
    return Run()


def alarms(events: list[Event]) -> list[Alarm]:
    return [event for event in events if isinstance(event, Alarm)]


def test_points_are_recorded_while_the_run_trains(run: Run) -> None:
    assert run.see(utilisation=90.0) == []
    run.train(step=3)
    [metrics] = run.see(utilisation=90.0)
    assert isinstance(metrics, Metrics)
    assert [(points.series, points.steps) for points in metrics.points] == [
        (f"device/{GPU}/utilisation", [3])
    ]
    run.happen(Paused(3))
    assert run.see(utilisation=90.0) == []


def test_alarms_of_its_own_devices_are_events_of_the_run(run: Run) -> None:
    hot = {"temperature": 90.0, "temperature_slowdown": 93.0}
    [raised] = alarms(run.see(**hot))
    assert (raised.device, raised.kind, raised.raised) == (GPU, "hot", True)
    assert raised.text.startswith("GPU 3 is at 90 °C")
    assert alarms(run.see(**hot)) == []
    [cleared] = alarms(run.see(temperature=60.0, temperature_slowdown=93.0))
    assert not cleared.raised
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(raised), type=Event)
    assert decoded == raised


IDLE = {"utilisation": 0.0}


def test_a_gpu_that_idles_while_steps_are_due_is_an_alarm(run: Run) -> None:
    run.train()
    seen = [alarms(run.see(**IDLE)) for _ in range(61)]
    assert seen[:-1] == [[]] * 60
    assert [alarm.kind for alarm in seen[-1]] == ["idle"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [TrainingStarted(0, 10, 3, 1, 1234)],
        [TrainingStarted(0, 10, 3, 1, 1234), progress(10)],
        [TrainingStarted(0, 10, 3, 1, 1234), progress(3), Paused(3)],
        [TrainingStarted(0, 10, 3, 1, 1234), progress(30), EpochEnded(3, 30, {})],
    ],
    ids=["starting", "first step", "validation", "paused", "after the last epoch"],
)
def test_a_gpu_may_idle_while_no_step_is_due(run: Run, events: list[Event]) -> None:
    run.happen(*events)
    for _ in range(100):
        assert alarms(run.see(**IDLE)) == []


def test_after_a_validation_steps_are_due_again(run: Run) -> None:
    run.train(step=10)
    run.happen(EpochEnded(1, 10, {}))
    assert [alarm.kind for _ in range(61) for alarm in alarms(run.see(**IDLE))] == ["idle"]


def test_a_gpu_that_is_lost_twice_without_a_step_ends_the_run(run: Run) -> None:
    run.train()
    [alarm] = alarms(run.see(lost=LOST))
    assert (alarm.kind, alarm.raised) == ("lost", True)
    assert not run.is_fatal(1000.0), "one snapshot is not enough"
    run.see(lost=LOST)
    assert not run.is_fatal(STEP_TIMEOUT - 1)
    assert run.is_fatal(STEP_TIMEOUT)
    for _ in range(3):  # more such snapshots do not delay it
        run.see(lost=LOST)
    assert run.is_fatal(STEP_TIMEOUT - 3)


def test_slow_steps_have_more_time(run: Run) -> None:
    run.train(step_seconds=30.0)
    run.lose()
    assert not run.is_fatal(299.0)
    assert run.is_fatal(300.0)


def test_a_lost_gpu_whose_run_trains_on_is_not_fatal(run: Run) -> None:
    run.train(step=3)
    run.lose()
    run.happen(progress(4))
    assert not run.is_fatal(10_000.0)
    assert run.watch.lost_device_to_blame() is None, "a later failure has another cause"
    assert alarms(run.see(lost=LOST)) == []


def test_a_step_that_was_already_in_progress_proves_nothing(run: Run) -> None:
    run.train(step=3)
    run.see(lost=LOST)
    run.happen(progress(4))
    run.see(lost=LOST)
    run.happen(progress(4))
    assert run.is_fatal(STEP_TIMEOUT)


def test_a_gpu_that_answers_again_is_not_lost(run: Run) -> None:
    run.train()
    run.lose()
    [cleared] = alarms(run.see(utilisation=0.0))
    assert (cleared.kind, cleared.raised) == ("lost", False)
    assert not run.is_fatal(10_000.0)
    run.see(lost=LOST)
    assert not run.is_fatal(10_000.0), "the snapshots are counted from one again"


def test_a_snapshot_without_the_gpu_proves_nothing(run: Run) -> None:
    run.train()
    for _ in range(5):
        run.watch.add_snapshot(
            Snapshot(time=run.now, devices=(), gpu_note="No driver."), run.status
        )
    assert not run.is_fatal(10_000.0)


def test_a_driver_that_reports_no_gpu_at_all_means_no_lost_gpu(run: Run) -> None:
    run.train()
    note = "The NVIDIA driver was replaced while it was in use: restart the machine."
    ours = DeviceSnapshot(id=GPU, kind="gpu", label="3", name="G", lost=note)
    for second in range(5):
        snapshot = Snapshot(time=1e9 + second, devices=(ours,), gpu_note=note)
        run.watch.add_snapshot(snapshot, run.status)
    assert not run.is_fatal(10_000.0)
    assert run.watch.lost_device_to_blame() is None


def test_a_validation_may_take_long_but_not_for_ever(run: Run) -> None:
    run.train(step=10)
    run.lose()
    assert not run.is_fatal(OTHER_TIMEOUT - 1)
    assert run.is_fatal(OTHER_TIMEOUT)


def test_the_time_of_a_pause_does_not_count(run: Run) -> None:
    run.train()
    run.lose()
    run.happen(Paused(3))
    assert not run.is_fatal(10_000.0)
    run.now += 10_000.0
    run.happen(Resumed(3))
    assert not run.is_fatal(STEP_TIMEOUT - 1)
    assert run.is_fatal(STEP_TIMEOUT)


def test_a_sleep_of_the_machine_does_not_count() -> None:
    """Some systems' clocks count it; a supervisor that was suspended sees the same gap."""
    run = Run()
    run.watch = DeviceWatch((GPU,), AwakeClock(lambda: run.now))
    run.train()
    run.lose()
    run.now += 8 * 3600.0
    assert run.watch.fatal_lost_device(run.status) is None
    for _ in range(int(STEP_TIMEOUT)):
        run.now += 1.0
        lost = run.watch.fatal_lost_device(run.status)
    assert lost is not None


def test_the_failure_names_the_gpu_and_the_checkpoint(tmp_path: Path) -> None:
    log = tmp_path / "rank1.log"
    log.write_text("the last line\n")
    device = DeviceSnapshot(id=GPU, kind="gpu", label="3", name="G", lost=LOST)
    plans = (WorkerPlan(0, (OTHER,)), WorkerPlan(1, (GPU,)))
    failure = lost_device_failure(device, RunStatus(checkpoint_step=40), plans, {1: log})
    assert (failure.rank, failure.device, failure.log_tail) == (1, GPU, "the last line")
    assert failure.message == sentence("gpu-stopped-answering-so-run-ended")
    assert "no checkpoint yet" in lost_device_failure(device, RunStatus(), plans, {1: log}).message
