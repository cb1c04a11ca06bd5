"""The sweeps of another machine: a real Traindeck behind a pipe, with its own data folder."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from pytestqt.qtbot import QtBot

from engine.interface.encoding import methods
from engine.processes.process import PROJECT
from engine.spec.run_spec import RunSpec
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import Choices
from engine.sweeps.report import SweepReport
from engine.sweeps.sweep import FILE_NAME, STOP, Sweep
from engine.system import machines as machine_list
from engine.system import paths
from engine.system.machines import RemoteMachine
from gui.bridge.background import Background
from gui.bridge.curves.sweep_curves import SweepCurves, SweepLines
from gui.bridge.machines.machines import Machines
from gui.bridge.machines.remote_sweeps import NOT_CONNECTED
from gui.bridge.sweeps import Sweeps
from tests.gui.conftest import Patch
from tests.support.made_sweeps import make_sweep
from tests.support.runs import delete_folder
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

LONG = 240_000


@pytest.fixture(scope="module")
def other_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("other")


@pytest.fixture(scope="module")
def opened(home: Path, qapp: object) -> Iterator[Machines]:
    """The connections of all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINDECK_HOME", str(home))
        machine_list.add(RemoteMachine(name="gpus", destination="me@gpus"))
        found = Machines()
        found.begin()
        yield found
        found.shut_down()


@pytest.fixture
def make_there(other_home: Path, monkeypatch: Patch) -> Iterator[Callable[..., Path]]:
    """Makes a sweep in the data folder of the other machine."""

    def make(count: int, **how: object) -> Path:
        with monkeypatch.context() as there:
            there.setenv("TRAINDECK_HOME", str(other_home))
            return make_sweep(count, **how)  # type: ignore[arg-type]

    yield make
    for each in (paths.home(), other_home):
        for name in (sweeps.FOLDER, "runs"):
            delete_folder(each / name)
        (each / "last-run").unlink(missing_ok=True)


@pytest.fixture
def connect(opened: Machines, other_home: Path, qtbot: QtBot) -> Callable[[], None]:
    """Connects, unless the test before has left the connection."""

    def begin() -> None:
        words = ("env", f"TRAINDECK_HOME={other_home}", f"PYTHONPATH={PROJECT}", sys.executable)
        opened.connect_to("gpus", (*words, str(PROJECT / "main.py"), "serve", "NONCE"))
        qtbot.waitUntil(lambda: opened.is_connected("gpus"), timeout=LONG)

    return begin


@pytest.fixture
def background(opened: Machines, qtbot: QtBot) -> Background:
    return Background(machines=opened)


@pytest.fixture
def bridge(background: Background) -> Iterator[Sweeps]:
    made = Sweeps(background)
    yield made
    made.set_watching(False)


class Listed:
    """What was listed last."""

    def __init__(self, bridge: Sweeps) -> None:
        self.reports: list[SweepReport] = []
        self.awaited: list[list[str]] = []
        self.missing: list[str] = []
        bridge.listed.connect(self._take)

    def _take(self, reports: list[SweepReport], awaited: list[str], missing: list[str]) -> None:
        self.reports, self.missing = reports, missing
        self.awaited.append(awaited)

    def states(self) -> dict[str, str]:
        return {each.summary.sweep: each.summary.state for each in self.reports}


def test_the_sweeps_there_follow_those_of_this_machine_while_it_is_connected(
    bridge: Sweeps,
    opened: Machines,
    connect: Callable[[], None],
    make_there: Callable[..., Path],
    qtbot: QtBot,
) -> None:
    make_sweep(1, with_runs=False)
    folder = make_there(3, trials=5, with_runs=False)
    listed = Listed(bridge)
    bridge.set_watching(True)
    connect()
    qtbot.waitUntil(lambda: len(listed.reports) == 2, timeout=LONG)
    assert listed.states() == {"1": "finished", "gpus:1": "stopped"}
    assert [each.run for each in listed.reports[1].trials] == ["gpus:1", "gpus:2", "gpus:3"]
    same = listed.reports[1]
    assert listed.awaited[-1] == []
    make_there(2, with_runs=False)
    qtbot.waitUntil(lambda: len(listed.reports) == 3, timeout=LONG)
    assert [each.summary.sweep for each in listed.reports] == ["1", "gpus:2", "gpus:1"]
    assert listed.reports[2] is same
    with FileLock(folder / sweeps.LOCK):
        qtbot.waitUntil(lambda: listed.states()["gpus:1"] == "running", timeout=LONG)
        os.kill(opened.connection("gpus").pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: listed.states()["gpus:1"] == NOT_CONNECTED, timeout=LONG)
        lost = listed.reports[2]
        why = sentence("there-is-no-connection-to-gpus-at-all")
        assert lost.summary.problem.startswith(why)
        assert len(lost.trials) == 3
        qtbot.waitUntil(lambda: listed.states()["gpus:1"] == "running", timeout=LONG)
    opened.disconnect_from("gpus")
    assert listed.states() == {"1": "finished"}


def test_a_sweep_is_commanded_there_and_one_that_could_not_start_is_refused(
    bridge: Sweeps,
    connect: Callable[[], None],
    make_there: Callable[..., Path],
    opened: Machines,
    qtbot: QtBot,
) -> None:
    folder = make_there(2, trials=4, with_runs=False)
    base = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), batch_size=0)
    sweep = Sweep(base=base, ranges={"seed": Choices((1, 2))}, trials=2)
    opened.disconnect_from("gpus")
    with qtbot.waitSignal(bridge.failed, timeout=LONG) as failed:
        bridge.stop("gpus:1")
    with qtbot.waitSignal(bridge.refused, timeout=LONG) as refused:
        bridge.start(sweep, "gpus")
    assert failed.args == refused.args == ["gpus is not connected."]
    connect()
    bridge.stop("gpus:1")
    qtbot.waitUntil((folder / STOP).exists, timeout=LONG)
    with qtbot.waitSignal(bridge.failed, timeout=LONG) as failed:
        bridge.stop("gpus:7")
    assert failed.args == [sentence("gpus-there-is-no-such-sweep")]
    (folder / FILE_NAME).write_text("")
    with qtbot.waitSignal(bridge.failed, timeout=LONG) as failed:
        bridge.resume("gpus:1")
    assert failed.args[0].startswith(sentence("gpus-sweep-cannot-be-read"))
    with qtbot.waitSignal(bridge.refused, timeout=LONG) as refused:
        bridge.start(sweep, "gpus")
    assert "batch_size does not fit" in refused.args[0]


def test_an_older_machine_is_named_with_what_is_missing(
    bridge: Sweeps,
    opened: Machines,
    connect: Callable[[], None],
    make_there: Callable[..., Path],
    monkeypatch: Patch,
    qtbot: QtBot,
) -> None:
    make_sweep(1, with_runs=False)
    make_there(1, with_runs=False)
    listed = Listed(bridge)
    opened.disconnect_from("gpus")
    with monkeypatch.context() as older:
        fewer = {name: each for name, each in methods().items() if name != "watch_sweeps"}
        older.setattr("engine.remote.session.methods", lambda: fewer)
        connect()
        bridge.set_watching(True)
        qtbot.waitUntil(lambda: bool(listed.missing), timeout=LONG)
    (said,) = listed.missing
    assert said.startswith(sentence("sweeps-of-gpus-are-missing-here-traindeck-there"))
    assert sentence("cannot-do-this-update") in said
    assert listed.states() == {"1": "finished"}
    assert listed.awaited[-1] == [], "it is not waited for"
    opened.disconnect_from("gpus")
    assert listed.missing == []
    connect()  # it was updated
    qtbot.waitUntil(lambda: "gpus:1" in listed.states(), timeout=LONG)


def test_the_curves_of_a_sweep_there_come_also_after_a_break(
    bridge: Sweeps,
    background: Background,
    opened: Machines,
    connect: Callable[[], None],
    make_there: Callable[..., Path],
    qtbot: QtBot,
) -> None:
    make_there(5)
    listed = Listed(bridge)
    bridge.set_watching(True)
    connect()
    qtbot.waitUntil(lambda: len(listed.reports) == 1, timeout=LONG)
    bridge.set_watching(False)
    (report,) = listed.reports
    best = report.summary.best
    opened.disconnect_from("gpus")
    curves = SweepCurves(background)
    arrived: list[SweepLines] = []
    curves.arrived.connect(arrived.append)
    curves.show(report)
    qtbot.waitUntil(lambda: not curves.is_reading, timeout=LONG)
    assert (arrived[-1].points, list(arrived[-1].others)) == (None, [])
    connect()
    curves.show(report)
    qtbot.waitUntil(lambda: not curves.is_reading, timeout=LONG)
    lines = arrived[-1]
    assert (lines.sweep, lines.best, lines.unread) == ("gpus:1", best.run, 0)
    assert lines.points.step.tolist() == [10, 20, 30]
    assert len(lines.others) == 4
