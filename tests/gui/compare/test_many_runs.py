"""More runs than anybody can tell apart: what is read, what is drawn, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from engine.runs.run_index import RunIndex
from gui.bridge.curves import curve_reader
from gui.compare import comparison as comparison_module
from gui.compare import comparison_plots
from gui.compare.comparison_plots import RunGroup
from gui.run_list.chosen_runs import COLOURS, ChosenRuns
from tests.gui.compare.conftest import View, curves
from tests.gui.conftest import Patch
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence

RUNS = 9
IDS = [str(number) for number in range(1, RUNS + 1)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four runs are many here, and two are read at once."""
    monkeypatch.setattr(comparison_module, "MOST_DRAWN", 4)
    monkeypatch.setattr(comparison_module, "_SLOW_READING", 2)
    monkeypatch.setattr(curve_reader, "_RUNS_AT_ONCE", 2)
    for _ in range(RUNS):
        record_epochs("finished", (0.5, 0.4))


@pytest.mark.usefixtures("few")
def test_of_many_runs_the_newest_are_drawn_and_a_sentence_says_so(view: View) -> None:
    view.compare(*IDS)
    assert set(curves(view, "Val loss")) == {"6", "7", "8", "9"}
    assert view.comparison.note.text() == sentence("newest-of-chosen-runs-are-drawn")
    assert view.comparison.table.model().columnCount() == 1 + 4
    view.chosen.pin("2")
    assert set(curves(view, "Val loss")) == {"2", "6", "7", "8", "9"}, "and the baseline"
    view.chosen.pin(None)
    view.chosen.toggle("9")
    assert set(curves(view, "Val loss")) == {"5", "6", "7", "8"}
    view.chosen.choose(IDS[:4])
    assert set(curves(view, "Val loss")) == set(IDS[:4])
    assert not view.comparison.note.isVisible()


@pytest.mark.usefixtures("few")
def test_means_are_of_all_runs_and_then_the_newest_are_drawn(view: View, qtbot: QtBot) -> None:
    view.compare(*IDS)
    plots = view.comparison.plots

    def labels() -> list[str]:
        shown = [plot for plot in plots.plots() if plot.title == "Val loss"]
        return sorted(each.label for plot in shown for each in plot.curves.curves())

    view.comparison.show_groups([RunGroup("all", tuple(IDS))])
    assert view.comparison.note.text().startswith(sentence("table-has-newest-of-chosen-runs"))
    qtbot.waitUntil(lambda: labels() == ["all, mean of 9 runs ± sd"], timeout=60_000)
    view.comparison.show_groups([])
    drawn = [f"#{number} digits" for number in (6, 7, 8, 9)]
    qtbot.waitUntil(lambda: labels() == drawn, timeout=60_000)
    assert len(curves(view, "Val loss")["9"].series) == 2


@pytest.mark.usefixtures("few")
def test_runs_are_read_in_parts_and_the_progress_is_told(view: View, monkeypatch: Patch) -> None:
    monkeypatch.setattr(comparison_module, "MOST_DRAWN", RUNS)
    monkeypatch.setattr(comparison_module, "_SECONDS_AT_ONCE", 60.0)
    jobs: list[Callable[[], None]] = []
    monkeypatch.setattr(
        view.comparison._background,
        "run",
        lambda work, success, failure: jobs.append(lambda: success(work())),
    )
    view.comparison.show_runs(RunIndex().runs())
    view.chosen.choose(IDS)
    assert view.comparison.note.text() == "Reading 0 of 9 runs…"
    said = []
    while jobs:
        jobs.pop(0)()
        view.comparison._show_more.stop()
        view.comparison._show_some()
        said.append(view.comparison.note.text())
        drawn = len(view.comparison.plots.plot("Val loss").curves.curves())
        assert drawn == min(2 * len(said), RUNS), "as they come"
    assert said == [f"Reading {number} of 9 runs…" for number in (2, 4, 6, 8)] + [""]


@pytest.mark.usefixtures("few")
def test_curves_of_many_are_thin_and_have_no_dashes(view: View, monkeypatch: Patch) -> None:
    monkeypatch.setattr(comparison_plots, "MOST_THICK", 3)
    view.chosen.choose(IDS[:COLOURS])  # number 9 has the colour of number 1
    view.compare("1", "2", "9")
    thick = curves(view, "Val loss")
    assert not any(curve.is_thin for curve in thick.values())
    view.compare(*IDS)
    view.chosen.pin("6")
    thin = curves(view, "Val loss")
    assert all(curve.is_thin for curve in thin.values())
    assert {name for name, curve in thin.items() if curve.dash.pattern} == {"6"}, "the baseline"


def test_thousands_of_runs_are_chosen_at_once() -> None:
    chosen = ChosenRuns()
    chosen.toggle("7")
    chosen.choose(str(number) for number in range(1, 5001))
    colours = chosen.colours()
    assert len(set(colours.values())) == 5000, "each has its own index"
    assert colours["7"] == 0
    chosen.keep_only(())
    chosen.toggle("7")
    assert chosen.colours() == {"7": 0}
