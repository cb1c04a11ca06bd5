"""What one rank measures of its loading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from engine.messages.events import Metrics, Notice
from engine.pytorch.probes import measurements
from engine.pytorch.samples.batch_sharder import LocalBatch
from engine.training.probes.measuring import Measurements
from tests.support.loop_doubles import RecordingSession
from tests.support.sentences import sentence

BATCH = LocalBatch((torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)), 4, 4, 4.0)
BYTES = 4 * 3 * 4 + 4 * 8


class Clock:
    """Moves when a batch is loaded."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Loader:
    """`workers` of it take `seconds` for a batch each, and deliver their batches in bursts."""

    def __init__(self, clock: Clock, seconds: float, workers: int, batches: int = 5) -> None:
        self.batches = batches
        self.is_closed = False
        self._clock, self._seconds, self._workers = clock, seconds, workers
        self._loaded = 0

    def local_batches(self, epoch: int, batch: int) -> Iterator[LocalBatch]:
        if self._loaded % max(1, self._workers) == 0:
            self._clock.now += self._seconds
        self._loaded += 1
        yield BATCH

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measurements, "time", clock)
    return clock


def rank() -> Any:
    return SimpleNamespace(number=0, group=SimpleNamespace(agree=lambda word: word))


def figures(session: RecordingSession) -> dict[str, float]:
    points = [
        each for event in session.emitted if isinstance(event, Metrics) for each in event.points
    ]
    return {each.series.removeprefix("measured/rank/0/"): each.values[0] for each in points}


def test_bursts_of_loader_workers_do_not_count_twice(tmp_path: Path, clock: Clock) -> None:
    session, made = RecordingSession(tmp_path), []

    def make(workers: int) -> Any:
        made.append(Loader(clock, 0.2, workers))
        return made[-1]

    measurements.loading(make, rank(), Measurements(session, 60.0), 40.0)
    found = figures(session)
    assert found["loading/batch_bytes"] == BYTES
    assert [found[f"loading/{workers}/seconds"] for workers in (0, 1, 2, 4)] == pytest.approx(
        [0.2, 0.2, 0.1, 0.05]
    )
    assert all(loader.is_closed for loader in made)


def test_a_slow_loader_is_measured_with_as_many_as_there_is_time_for(
    tmp_path: Path, clock: Clock
) -> None:
    session = RecordingSession(tmp_path)
    measurements.loading(
        lambda workers: Loader(clock, 5.0, workers), rank(), Measurements(session, 60.0), 12.0
    )
    assert [name for name in figures(session) if name.endswith("seconds")] == ["loading/0/seconds"]


def test_what_one_number_of_workers_meets_does_not_end_the_others(
    tmp_path: Path, clock: Clock
) -> None:
    session = RecordingSession(tmp_path)

    def make(workers: int) -> Any:
        if workers == 1:
            raise RuntimeError("no room in shared memory")
        return Loader(clock, 0.2, workers)

    measurements.loading(make, rank(), Measurements(session, 60.0), 40.0)
    assert {"loading/0/seconds", "loading/2/seconds", "loading/4/seconds"} <= set(figures(session))
    assert [each.text for each in session.emitted if isinstance(each, Notice)] == [
        sentence("with-loader-workers-no-room")
    ]


def test_arrays_are_not_loaded(tmp_path: Path, clock: Clock) -> None:
    session = RecordingSession(tmp_path)
    measurements.loading(lambda workers: None, rank(), Measurements(session, 60.0), 40.0)
    assert session.emitted == []


def test_equal_weights_have_one_sum(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    session = RecordingSession(tmp_path)
    measurements.weights(list(model.parameters()), Measurements(session, 1.0))
    with torch.no_grad():
        total = float(sum(each.double().sum() for each in model.parameters()))
    assert figures(session)["weights"] == pytest.approx(total)


def test_convolutions_with_their_channels_first_are_counted(tmp_path: Path) -> None:
    session = RecordingSession(tmp_path)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(1, 4, 3), nn.Flatten())
    for order in (torch.contiguous_format, torch.channels_last):
        measurements.layout(model.to(memory_format=order), Measurements(session, 1.0))
    told = [p for event in session.emitted if isinstance(event, Metrics) for p in event.points]
    assert [point.values for point in told] == [[1.0], [0.0]]
