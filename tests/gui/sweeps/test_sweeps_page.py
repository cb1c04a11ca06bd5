"""The page of the sweeps: what it shows of each, and what its buttons ask for."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from filelock import FileLock
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.sweeps.report import SweepIndex, SweepReport
from engine.sweeps.sweep import JOURNAL, LOCK
from gui.bridge.background import Background
from gui.bridge.machines.remote_sweeps import NOT_CONNECTED
from gui.style.theme import DARK
from gui.sweeps.sweeps_page import SweepsPage
from tests.support.made_sweeps import make_sweep
from tests.support.sentences import sentence


@pytest.fixture
def page(qtbot: QtBot) -> SweepsPage:
    page = SweepsPage(Background(), DARK)
    qtbot.addWidget(page)
    page.resize(1200, 700)
    page.show()
    return page


def test_without_sweeps_it_offers_to_make_one(page: SweepsPage, qtbot: QtBot) -> None:
    assert not page.first.isVisible(), "nothing is known yet"
    page.show_reports([], ["gpus"])
    assert page.none.text() == sentence("reading-sweeps-of-gpus")
    assert not page.first.isVisible()
    page.show_reports([])
    assert page.first.isVisible()
    with qtbot.waitSignal(page.new_wanted):
        page.first.click()


def test_it_says_of_which_machines_sweeps_are_missing(page: SweepsPage) -> None:
    why = "Sweeps of gpus are missing here. The Traindeck there is older."
    page.show_reports([], (), [why])
    assert page.none.isVisible()
    assert page.none.text().endswith(why)
    make_sweep(3, with_runs=False)
    make_sweep(3, with_runs=False)
    reports = SweepIndex().read()
    page.show_reports(reports, (), [why, why.replace("gpus", "node-7")])
    assert page.missing.isVisible()
    assert page.missing.text().splitlines() == [why, why.replace("gpus", "node-7")]
    page.choose("1")
    assert page.missing.isVisible(), "also of another sweep"
    page.show_reports(reports)
    assert not page.missing.isVisible()


def test_it_shows_the_newest_sweep_until_another_one_is_chosen_or_it_is_gone(
    page: SweepsPage,
) -> None:
    make_sweep(12, failed=(2,), with_runs=False)
    make_sweep(3, trials=8, with_runs=False)
    index = SweepIndex()
    page.show_reports(index.read())
    assert page.title.text() == "Sweep 2 · digits"
    assert page.progress.text() == "stopped, 3 of 8"
    assert page.list.count() == 2
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    assert page.title.text() == "Sweep 1 · digits"
    assert page.table.trials.rowCount() == 12
    assert page.table.trials.rows[2].reason == "The loss is NaN."
    assert set(page.importance.shares) == {"Learning rate", "width", "Optimizer"}
    assert len(page.parallel.axes) == 4
    page.show_reports(index.read())
    assert page.title.text() == "Sweep 1 · digits", "it stays"
    page.choose("2")
    assert page.list.current() == "2"
    page.show_reports([])
    assert page.first.isVisible()
    assert page.shown is None


def test_buttons_are_those_of_its_state(page: SweepsPage, qtbot: QtBot) -> None:
    folder = make_sweep(3, trials=8, with_runs=False)
    index = SweepIndex()
    page.show_reports(index.read())
    assert (page.stop.isHidden(), page.resume.isHidden()) == (True, False)
    with qtbot.waitSignal(page.resume_wanted) as wanted:
        page.resume.click()
    assert wanted.args == ["1"]
    with FileLock(folder / LOCK):
        page.show_reports(index.read())
        assert (page.stop.isHidden(), page.resume.isHidden()) == (False, True)
        with qtbot.waitSignal(page.stop_wanted) as wanted:
            page.stop.click()
        assert wanted.args == ["1"]
        assert (page.stop.text(), page.stop.isEnabled()) == ("Stopping…", False)
    page.show_reports(index.read())
    assert (page.stop.isHidden(), page.resume.isHidden()) == (True, False)


def test_a_brush_filters_the_table_and_the_best_settings_are_wanted(
    page: SweepsPage, qtbot: QtBot
) -> None:
    make_sweep(12, with_runs=False)
    page.show_reports(SweepIndex().read())
    page.parallel.brush(1, 0.9, 1.0)
    widths = {each.settings["width"] for each in page.table.trials.rows}
    assert widths == {64}
    count = page.table.trials.rowCount()
    assert page.passing.text().startswith(f"{count} of 12 trials pass")
    number = page.table.trials.rows[-1].number
    page.parallel.point_to(number)
    assert page.table.trials.rows[page.table.currentIndex().row()].number == number
    page.parallel.clear_brushes()
    assert page.table.trials.rowCount() == 12
    best = page.shown.summary.best
    with qtbot.waitSignal(page.form_wanted) as wanted:
        page.use.click()
    assert wanted.args == [page.shown]
    assert f"run {best.run}" in page.best.text()


def test_the_best_curve_lies_over_the_band_of_the_others(page: SweepsPage, qtbot: QtBot) -> None:
    make_sweep(8)
    page.show_reports(SweepIndex().read())
    best = page.shown.summary.best
    plot = page.best_plot.plot
    qtbot.waitUntil(lambda: {"best", "others"} <= set(plot.curves), timeout=60_000)
    assert plot.curves["best"].label == f"Best: run {best.run}"
    assert plot.curves["others"].label == "7 others, 10–90 %"
    ends = [each.value for each in page.shown.trials if each.run != best.run]
    low, high = np.quantile(np.array(ends, float), (0.1, 0.9))
    band = plot.curves["others"]
    assert band._low[-1] == pytest.approx(low)  # type: ignore[attr-defined]
    assert band._high[-1] == pytest.approx(high)  # type: ignore[attr-defined]


def test_a_damaged_sweep_is_a_sentence_and_the_others_can_be_seen(page: SweepsPage) -> None:
    make_sweep(3, with_runs=False)
    folder = make_sweep(3, with_runs=False)
    (folder / JOURNAL).write_bytes(b"no json\n" * 3)
    page.show_reports(SweepIndex().read())
    assert page.progress.text() == "damaged"
    assert sentence("sweep-journal-is-damaged", sweep=2) in page.problem.text()
    assert not page.parallel.isVisible()
    assert page.resume.isHidden()
    assert page.stop.isHidden()
    page.choose("1")
    assert page.parallel.isVisible()
    assert not page.problem.isVisible()


def test_a_sweep_that_is_not_connected_is_shown_as_known_last(page: SweepsPage) -> None:
    make_sweep(3, trials=5, with_runs=False)
    (report,) = SweepIndex().read()
    why = "There is no connection to gpus. It is off."
    lost = {"sweep": "gpus:1", "state": NOT_CONNECTED, "problem": why}
    trials = tuple(msgspec.structs.replace(each, run=f"gpus:{each.run}") for each in report.trials)
    page.show_reports(
        [SweepReport(msgspec.structs.replace(report.summary, **lost), report.sweep, trials)]
    )
    assert page.title.text() == "Sweep gpus:1 · digits"
    assert (page.progress.text(), page.remark.text()) == ("not connected", why)
    assert page.remark.isVisible()
    assert not page.problem.isVisible()
    assert page.parallel.isVisible()
    assert (page.stop.isHidden(), page.resume.isHidden()) == (True, True)
    runs = [page.table.trials.text(each, "run") for each in page.table.trials.rows]
    assert runs == ["gpus:1", "gpus:2", "gpus:3"]
    page.show_reports([report])
    assert not page.remark.isVisible()


def test_a_sweep_that_starts_no_more_trials_says_why(page: SweepsPage) -> None:
    make_sweep(3, trials=5, with_runs=False)
    (report,) = SweepIndex().read()
    why = "3 trials in turn could not be started. The last reason: <b>There is no such device."
    summary = msgspec.structs.replace(report.summary, sweep="gpus:1", reason=why)
    page.show_reports([msgspec.structs.replace(report, summary=summary)])
    assert (page.remark.text(), page.remark.isVisible()) == (why, True)
    assert page.progress.text() == "stopped, 3 of 5"
    assert not page.resume.isHidden()
    assert page.parallel.isVisible()
    assert "There is no such device" in page.list.item(0).toolTip()
    page.show_reports([report])
    assert not page.remark.isVisible()


def test_it_reads_only_while_it_is_seen(page: SweepsPage, qtbot: QtBot) -> None:
    with qtbot.waitSignal(page.watching) as watching:
        page.hide()
    assert watching.args == [False]
    with qtbot.waitSignal(page.watching) as watching:
        page.show()
    assert watching.args == [True]
