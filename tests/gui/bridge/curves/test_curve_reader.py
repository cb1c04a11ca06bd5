"""The curves of a run of another machine in the comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from engine.runs.run_follower import RunNews
from engine.runs.run_info import RunInfo, get_run
from engine.runs.run_state import RunState
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.stored_points import StoredPoints
from gui.bridge.curves.curve_reader import CurveNews, RemoteCurveReader
from tests.support.recorded_runs import RecordedRun


def points(*steps: int) -> StoredPoints:
    values = np.array(steps, np.float64)
    return StoredPoints(values, values, values, len(steps))


class Followed:
    """Stands in for the machines of the window, and for the run that is followed."""

    def __init__(self, info: RunInfo) -> None:
        self.state = info
        self.tell: Callable[[RunNews], None] = lambda news: None
        self.followed, self.shown = 0, ()
        self.is_followed = False
        self.most = 0

    def follow(self, run_id: str, series: Sequence[str], tell: Any, most: int) -> Followed:
        self.followed, self.tell, self.is_followed = self.followed + 1, tell, True
        self.most = most
        return self

    def close(self) -> None:
        self.is_followed = False

    def show(self, series: Sequence[str], most: int) -> None:
        self.shown = tuple(series)

    def is_connected(self, name: str) -> bool:
        return True

    def best(self, run_id: str) -> dict[str, Any]:
        return {}

    def info(self, run_id: str) -> RunInfo:
        return self.state


@pytest.fixture
def machines() -> Followed:
    run = RecordedRun()
    run.begin()
    run.store.close()
    return Followed(get_run(run.id)._replace(state=RunState.FINISHED))


def test_a_run_that_is_over_is_read_whole_and_watched_no_more(machines: Followed) -> None:
    reader = RemoteCurveReader(machines, "gpus:1")  # type: ignore[arg-type]
    reader.begin(100)
    machines.tell(RunNews(info=machines.state, series=("train/loss", "rank/1/x", "validation/a")))
    assert machines.shown == ("train/loss", "validation/a")
    machines.tell(RunNews(curves=[CurveUpdate("train/loss", points(1), True)]))
    machines.tell(RunNews(curves=[CurveUpdate("validation/a", points(2), True)]))
    assert [each.series for each in reader.read(100).curves] == ["train/loss", "validation/a"]
    assert not machines.is_followed
    assert reader.read(100) == CurveNews("gpus:1")
    assert machines.followed == 1
    resumed = replace(machines.state.status, attempt=machines.state.status.attempt + 1)
    machines.state = machines.state._replace(state=RunState.RUNNING, status=resumed)
    reader.begin(100)
    assert (machines.followed, machines.is_followed) == (2, True)


def test_an_active_run_stays_watched(machines: Followed) -> None:
    machines.state = machines.state._replace(state=RunState.RUNNING)
    reader = RemoteCurveReader(machines, "gpus:1")  # type: ignore[arg-type]
    reader.begin(100)
    machines.tell(RunNews(info=machines.state, series=("train/loss",)))
    machines.tell(RunNews(curves=[CurveUpdate("train/loss", points(1), True)]))
    assert len(reader.read(100).curves) == 1
    assert machines.is_followed
    reader.close()
    assert not machines.is_followed
