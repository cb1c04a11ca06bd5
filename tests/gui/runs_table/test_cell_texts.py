"""What the cells of the table of runs say."""

from __future__ import annotations

import math

from engine.runs.table.arrangement import statistics
from engine.runs.table.columns import columns_of
from gui.runs_table.cell_texts import is_best_shown, run_text
from tests.support.made_runs import made_run


def test_values_that_are_shown_alike_are_best_together() -> None:
    runs = [
        made_run(n, best={"validation/accuracy": accuracy, "validation/loss": 0.5})
        for n, accuracy in ((1, 0.98), (2, 1.0), (3, 0.99999))
    ]
    columns = columns_of(runs)
    column = columns["best(validation/accuracy)"]
    shown = statistics(runs, column)
    values = (0.98, 1.0, 0.99999, math.nan)
    assert [is_best_shown(column, each, shown) for each in values] == [False, True, True, False]
    alike = columns["best(validation/loss)"]
    assert not is_best_shown(alike, 0.5, statistics(runs, alike)), "all are"
    assert not is_best_shown(columns["learning_rate"], 1.0, shown), "no metric"
    assert not is_best_shown(column, 1.0, None)


def test_a_run_of_another_machine_is_named_with_its_machine() -> None:
    here = made_run(3)
    runs = [here, here._replace(id="gpus:3")]
    column = columns_of(runs)["id"]
    assert [run_text(column, each) for each in runs] == ["#3", "gpus:3"]
