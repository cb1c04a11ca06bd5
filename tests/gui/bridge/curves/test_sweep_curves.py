"""The curves of a sweep's runs: the best one, the others, and runs that are gone."""

from __future__ import annotations

import shutil

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from engine.sweeps.report import SweepReader, SweepReport
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.curves import sweep_curves
from gui.bridge.curves.sweep_curves import SweepCurves, SweepLines
from tests.gui.conftest import Patch
from tests.support.made_sweeps import make_sweep
from tests.support.recorded_runs import record_epochs
from tests.support.runs import delete_folder


def read(curves: SweepCurves, report: SweepReport, qtbot: QtBot) -> SweepLines:
    """Return what arrived last."""
    found: list[SweepLines] = []
    curves.arrived.connect(found.append)
    curves.show(report)
    qtbot.waitUntil(lambda: not curves.is_reading, timeout=60_000)
    return found[-1]


def test_the_best_run_and_the_others_are_read_in_parts(qtbot: QtBot, monkeypatch: Patch) -> None:
    monkeypatch.setattr(sweep_curves, "_RUNS_AT_ONCE", 2)
    report = SweepReader(make_sweep(5)).read()
    best = report.summary.best
    assert best.value is not None
    lines = read(SweepCurves(Background()), report, qtbot)
    assert (lines.sweep, lines.best, lines.unread) == ("1", best.run, 0)
    assert lines.points.step.tolist() == [10, 20, 30]
    assert lines.points.value.tolist() == pytest.approx([best.value + each for each in (2, 1, 0)])
    assert len(lines.others) == 4


def test_runs_that_were_deleted_have_no_curve(qtbot: QtBot) -> None:
    report = SweepReader(make_sweep(3)).read()
    best = report.summary.best
    delete_folder(paths.run_folder(best.run))
    lines = read(SweepCurves(Background()), report, qtbot)
    assert lines.points is None
    assert len(lines.others) == 2


def test_runs_that_are_over_are_read_once(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_sweep(3)
    reader = SweepReader(folder)
    curves = SweepCurves(Background())
    read(curves, reader.read(), qtbot)
    asked: list[str] = []
    honest = sweep_curves._line
    monkeypatch.setattr(
        sweep_curves,
        "_line",
        lambda machines, sweep, run, is_over: (
            asked.append(run),
            honest(machines, sweep, run, is_over),
        )[1],
    )
    read(curves, reader.read(), qtbot)
    assert asked == []


def test_a_run_that_was_training_when_it_was_read_is_read_again_at_its_end(qtbot: QtBot) -> None:
    over = SweepReader(make_sweep(4)).read()
    _, *others = [each for each in over.trials if each.number != over.summary.best.number]
    begun = record_epochs("running", (8.0,))  # what stood there while the runs were training
    runs = [paths.run_folder(each.run) for each in others]
    for run in runs:
        run.rename(run.with_name(f"{run.name}-whole"))
    shutil.copytree(begun, runs[0])
    training = tuple(
        msgspec.structs.replace(each, state="running") if each in others else each
        for each in over.trials
    )
    curves = SweepCurves(Background())
    lines = read(curves, msgspec.structs.replace(over, trials=training), qtbot)
    assert sorted(steps.tolist() for steps, _ in lines.others) == [[10], [10, 20, 30]]
    delete_folder(runs[0])
    for run in runs:
        run.with_name(f"{run.name}-whole").rename(run)
    lines = read(curves, over, qtbot)
    assert [steps.tolist() for steps, _ in lines.others] == [[10, 20, 30]] * 3


def test_another_sweep_takes_the_place(qtbot: QtBot) -> None:
    curves = SweepCurves(Background())
    first, second = (SweepReader(make_sweep(count)).read() for count in (2, 4))
    read(curves, first, qtbot)
    assert len(read(curves, second, qtbot).others) == 3
