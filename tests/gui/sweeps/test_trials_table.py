"""The table of trials: sorting, filtering, and what stays when values change."""

from __future__ import annotations

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import Sweep
from gui.sweeps.trials_table import TrialsTable
from tests.support.made_sweeps import BASE, RANGES

SWEEP = Sweep(base=BASE, ranges=dict(RANGES), own_settings=("width",), trials=9)


def trial(number: int, rate: float, value: float | None, state: str = "finished") -> TrialResult:
    settings = {"learning_rate": rate, "width": 16, "optimizer": "adamw"}
    reason = "The loss is NaN." if state == "failed" else ""
    return TrialResult(number, str(number + 8), state, settings, value, reason)


TRIALS = [
    trial(0, 0.1, 3.0),
    trial(1, 0.01, 1.0),
    trial(2, 0.05, None, "failed"),
    trial(3, 1.0, 2.0),
]


@pytest.fixture
def table(qtbot: QtBot) -> TrialsTable:
    table = TrialsTable()
    qtbot.addWidget(table)
    table.show_trials(SWEEP, TRIALS, 1)
    table.show()
    return table


def numbers(table: TrialsTable) -> list[int]:
    return [each.number for each in table.trials.rows]


def column(table: TrialsTable, name: str) -> int:
    return table.trials.columns.index(name)


def test_a_row_says_everything_about_a_trial(table: TrialsTable) -> None:
    model = table.trials
    texts = [
        [model.index(row, each).data() for each in range(model.columnCount())] for row in (1, 2)
    ]
    assert texts[0] == ["1", "#9", "finished", "★ 1", "0.01", "16", "adamw", ""]
    assert texts[1] == ["2", "#10", "failed", "–", "0.05", "16", "adamw", "The loss is NaN."]
    spoken = model.index(1, column(table, "value")).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Val loss: ★ 1"


def test_a_click_on_a_title_sorts_and_missing_values_stay_last(table: TrialsTable) -> None:
    click = table.horizontalHeader().sectionClicked
    click.emit(column(table, "value"))
    assert numbers(table) == [1, 3, 0, 2]
    click.emit(column(table, "value"))
    assert numbers(table) == [0, 3, 1, 2]
    click.emit(column(table, "setting learning_rate"))
    assert numbers(table) == [1, 2, 0, 3]
    table.setCurrentIndex(table.trials.index(0, column(table, "state")))
    table.sort.trigger()
    assert table.trials.sorted_by == "state"


def test_the_current_row_goes_along_with_its_trial(table: TrialsTable) -> None:
    table.point_to(3)
    table.horizontalHeader().sectionClicked.emit(column(table, "value"))
    changed = [*TRIALS[:3], msgspec.structs.replace(TRIALS[3], value=0.5), trial(4, 0.2, 0.7)]
    table.show_trials(SWEEP, changed, 3)
    assert numbers(table) == [3, 4, 1, 0, 2]
    assert table.trials.rows[table.currentIndex().row()].number == 3


def test_the_star_leaves_the_row_of_the_former_best(table: TrialsTable, qtbot: QtBot) -> None:
    model, changed = table.trials, [*TRIALS[:3], msgspec.structs.replace(TRIALS[3], value=0.5)]
    with qtbot.waitSignal(model.dataChanged) as told:
        table.show_trials(SWEEP, changed, 3)
    first, last = told.args[:2]
    assert (first.row(), last.row()) == (0, 3)  # the row of the former best is as it was
    values = [model.index(row, column(table, "value")).data() for row in range(4)]
    assert values == ["3", "1", "–", "★ 0.5"]
    with qtbot.assertNotEmitted(model.dataChanged):
        table.show_trials(SWEEP, changed, 3)


def test_a_column_is_aligned_by_its_range_and_not_by_its_rows(table: TrialsTable) -> None:
    def right() -> list[str]:
        align, model = Qt.ItemDataRole.TextAlignmentRole, table.trials
        return [
            name
            for place, name in enumerate(model.columns)
            if model.headerData(place, Qt.Orientation.Horizontal, align)
            & Qt.AlignmentFlag.AlignRight
        ]

    numbers = ["value", "setting learning_rate", "setting width"]
    assert right() == numbers
    table.show_trials(SWEEP, [TrialResult(0, "", "waiting", {}, None), *TRIALS[1:]], 1)
    assert right() == numbers


def test_a_filter_shows_only_what_passes(table: TrialsTable) -> None:
    table.trials.filter(frozenset({0, 3}))
    assert numbers(table) == [0, 3]
    table.trials.filter(frozenset())
    assert numbers(table) == []
    table.point_to(0)
    table.trials.filter(None)
    assert numbers(table) == [0, 1, 2, 3]


def test_return_and_a_double_click_open_the_run(table: TrialsTable, qtbot: QtBot) -> None:
    table.point_to(1)
    with qtbot.waitSignal(table.opened) as opened:
        QTest.keyClick(table, Qt.Key.Key_Return)
    assert opened.args == ["9"]
    with qtbot.waitSignal(table.opened) as opened:
        table.doubleClicked.emit(table.trials.index(3, 0))
    assert opened.args == ["11"]
    table.show_trials(SWEEP, [TrialResult(0, "", "waiting", {}, None)], -1)
    table.point_to(0)
    QTest.keyClick(table, Qt.Key.Key_Return)


def test_the_table_is_copied_without_stars(table: TrialsTable) -> None:
    table.copy.trigger()
    lines = QGuiApplication.clipboard().text().split("\n")
    assert lines[0].startswith("Trial\tRun\tState\tVal loss\tLearning rate")
    assert lines[2] == "1\t#9\tfinished\t1\t0.01\t16\tadamw\t"


def test_another_sweep_has_other_columns(table: TrialsTable) -> None:
    table.trials.sort_by(column(table, "setting width"))
    table.show_trials(None, (), -1)
    assert table.trials.columns == ["number", "run", "state", "reason"]
    assert table.trials.sorted_by == "number"
