"""Which parts of a curve a zoom reads: of another machine, few, and not again at each point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from engine.interface.engine import Engine
from engine.interface.local_engine import LocalEngine
from engine.remote.remote_engine import remote_engine
from engine.runs.store.stored_points import StoredPoints
from gui.bridge.background import Background
from gui.bridge.curves.zoom_reader import ZoomReader

NOTHING = StoredPoints(np.empty(0), np.empty(0), np.empty(0), 0)


class Reads(Background):
    """Does the work at once, and notes what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, float, int]] = []

    def run(
        self, work: Callable[[], Any], success: Callable[[Any], None], failure: Callable[..., None]
    ) -> None:
        success(work())


@pytest.fixture
def reads(qapp: object, monkeypatch: pytest.MonkeyPatch) -> Reads:
    found = Reads()

    def read_window(run: str, series: str, first: float, last: float, most: int) -> StoredPoints:
        assert run == "1"
        found.asked.append((first, last, most))
        return NOTHING

    def engine(name: str) -> Engine:
        def call(_: object, given: Mapping[str, Any]) -> StoredPoints:
            return read_window(*given.values())

        return remote_engine(name, call) if name else here

    here = LocalEngine()
    monkeypatch.setattr(here, "read_window", read_window)
    monkeypatch.setattr(found.machines, "engine", engine)
    return found


def test_a_view_that_follows_a_run_elsewhere_reads_only_when_it_has_moved(reads: Reads) -> None:
    reader = ZoomReader(reads)
    reader.watch("gpus:1")
    for last in range(1000, 1100, 10):
        reader.request("train/loss", 0.0, float(last))
    assert reads.asked == [(0.0, 1000.0, 4000)]
    reader.request("train/loss", 0.0, 1100.0)
    reader.request("validation/loss", 0.0, 1100.0)
    assert len(reads.asked) == 3
    reader.request("train/loss", 500.0, 600.0)
    assert reads.asked[-1] == (500.0, 600.0, 4000)


def test_of_this_machine_every_range_is_read(reads: Reads) -> None:
    reader = ZoomReader(reads)
    reader.watch("1")
    for last in (1000.0, 1010.0):
        reader.request("train/loss", 0.0, last)
    assert reads.asked == [(0.0, 1000.0, 64_000), (0.0, 1010.0, 64_000)]


def test_a_run_that_was_deleted_meanwhile_is_told(qtbot: QtBot) -> None:
    background = Background()
    reader = ZoomReader(background)
    reader.watch("7")
    with qtbot.waitSignal(reader.trouble) as told:
        reader.request("train/loss", 0.0, 9.0)
    assert "There is no run 7" in told.args[0]
    background.finish()
