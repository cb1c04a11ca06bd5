"""Sweeps in the background: what is listed, and why one is not started, stopped or resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock
from pytestqt.qtbot import QtBot

from engine.spec.run_spec import RunSpec
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import Choices
from engine.sweeps.sweep import JOURNAL, LOCK, STOP, Sweep
from gui.bridge.background import Background
from gui.bridge.sweeps import Sweeps
from tests.support.made_sweeps import make_sweep
from tests.support.sentences import sentence


@pytest.fixture
def background(qtbot: QtBot) -> Background:
    return Background()


@pytest.fixture
def bridge(background: Background) -> Sweeps:
    return Sweeps(background)


def test_sweeps_are_read_again_only_when_they_change(bridge: Sweeps, qtbot: QtBot) -> None:
    make_sweep(3, with_runs=False)
    folder = make_sweep(2, trials=4, with_runs=False)
    with qtbot.waitSignal(bridge.listed) as first:
        bridge.read()
    assert [(each.summary.sweep, each.summary.state) for each in first.args[0]] == [
        ("2", "stopped"),
        ("1", "finished"),
    ]
    (folder / sweeps.FILE_NAME).write_text("")
    with qtbot.waitSignal(bridge.listed) as second:
        bridge.read()
    damaged, same = second.args[0]
    assert damaged.summary.state == "damaged"
    assert same is first.args[0][1]


def test_a_sweep_that_could_not_start_leaves_nothing(bridge: Sweeps, qtbot: QtBot) -> None:
    base = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), batch_size=0)
    with qtbot.waitSignal(bridge.refused) as refused:
        bridge.start(Sweep(base=base, ranges={"seed": Choices((1, 2))}, trials=2))
    assert "at least 1" in refused.args[0]
    assert sweeps.folders() == []


def test_a_stop_is_asked_for(bridge: Sweeps, qtbot: QtBot) -> None:
    folder = make_sweep(2, trials=4, with_runs=False)
    with qtbot.waitSignal(bridge.listed):
        bridge.stop("1")
    assert (folder / STOP).exists()
    with qtbot.waitSignal(bridge.failed) as failed:
        bridge.stop("7")
    assert failed.args == [sentence("there-is-no-such-sweep")]


def test_a_sweep_is_not_resumed_twice(bridge: Sweeps, qtbot: QtBot) -> None:
    folder = make_sweep(2, trials=4, with_runs=False)
    with FileLock(folder / LOCK), qtbot.waitSignal(bridge.failed) as failed:
        bridge.resume("1")
    assert failed.args == [sentence("sweep-is-active-already")]


def damage(folder: Path) -> None:
    (folder / JOURNAL).write_bytes(b"no json\n" * 3)


def edit(folder: Path) -> None:
    file = folder / sweeps.FILE_NAME
    file.write_text(file.read_text().replace("parallel = 1", "parallel = -1"))


@pytest.mark.parametrize(
    ("harm", "why"), [(damage, "its journal is damaged"), (edit, "at one time")]
)
def test_a_damaged_sweep_is_not_resumed_but_said(
    bridge: Sweeps, qtbot: QtBot, harm: object, why: str
) -> None:
    harm(make_sweep(2, trials=4, with_runs=False))  # type: ignore[operator]
    with qtbot.waitSignal(bridge.failed) as failed:
        bridge.resume("1")
    assert why in failed.args[0]


def test_it_reads_only_while_somebody_looks(bridge: Sweeps, qtbot: QtBot) -> None:
    make_sweep(1, with_runs=False)
    with qtbot.waitSignals([bridge.listed, bridge.listed], timeout=60_000):
        bridge.set_watching(True)
    bridge.set_watching(False)
    assert not bridge._timer.isActive()
