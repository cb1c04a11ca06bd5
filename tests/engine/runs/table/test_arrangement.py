"""The order and the groups of the table of runs."""

from __future__ import annotations

import math

import pytest

from engine.runs.run_info import RunInfo
from engine.runs.table.arrangement import Order, grouped, sorted_runs, statistics
from engine.runs.table.columns import columns_of
from tests.support.made_runs import made_run


def ids(infos: list[RunInfo]) -> list[str]:
    return [info.id for info in infos]


@pytest.mark.parametrize(("descending", "expected"), [(False, "2413"), (True, "1423")])
def test_numbers_are_sorted_as_numbers_and_missing_ones_come_last(
    descending: bool, expected: str
) -> None:
    widths = {1: 100, 2: 9, 4: 20}
    runs = [made_run(n, settings={"width": widths[n]} if n in widths else {}) for n in (1, 2, 3, 4)]
    order = Order(columns_of(runs)["settings/width"], descending)
    assert "".join(ids(sorted_runs(runs, order))) == expected


def test_a_metric_that_is_not_a_number_comes_last_in_both_orders() -> None:
    runs = [made_run(n, metrics={"train/loss": v}) for n, v in ((1, math.nan), (2, 3.0), (3, 1.0))]
    column = columns_of(runs)["train/loss"]
    assert ids(sorted_runs(runs, Order(column))) == ["3", "2", "1"]
    assert ids(sorted_runs(runs, Order(column, descending=True))) == ["2", "3", "1"]


def test_equal_runs_keep_their_order_also_when_it_is_turned() -> None:
    runs = [made_run(n, epochs=5) for n in (3, 2, 1)]
    for descending in (False, True):
        order = Order(columns_of(runs)["epochs"], descending)
        assert ids(sorted_runs(runs, order)) == ["3", "2", "1"]


def test_groups_have_a_mean_and_the_deviation_of_a_sample() -> None:
    values = {1: 1.0, 2: 3.0, 3: 10.0, 4: math.inf}
    runs = [
        made_run(n, seed=n % 2, best={"validation/loss": value}, optimizer="adam")
        for n, value in values.items()
    ]
    columns = columns_of(runs)
    groups = grouped(runs, columns["seed"])
    assert [(group.value, ids(group.runs)) for group in groups] == [
        (0, ["2", "4"]),
        (1, ["1", "3"]),
    ]
    found = [statistics(group.runs, columns["best(validation/loss)"]) for group in groups]
    assert [each and (each.numbers, each.mean) for each in found] == [(1, 3.0), (2, 5.5)]
    assert [each and round(each.deviation, 3) for each in found] == [0.0, 6.364]
    assert statistics(runs, columns["optimizer"]) is None


def test_runs_without_a_value_are_the_last_group() -> None:
    runs = [made_run(1), made_run(2, settings={"a": "x"}), made_run(3, settings={"a": 1})]
    groups = grouped(runs, columns_of(runs)["settings/a"])
    assert [(group.value, ids(group.runs)) for group in groups] == [
        (1, ["3"]),
        ("x", ["2"]),
        (None, ["1"]),
    ]


def test_a_run_that_diverged_leaves_the_statistics_of_the_others() -> None:
    runs = [made_run(n, metrics={"train/loss": loss}) for n, loss in ((1, 1e300), (2, 3e300))]
    found = statistics(runs, columns_of(runs)["train/loss"])
    assert found is not None
    assert found.mean == pytest.approx(2e300)
    assert found.deviation == pytest.approx(2**0.5 * 1e300)
    huge = [made_run(1, command=("a.py", "--n", "9" * 400))]
    assert statistics(huge, columns_of(huge)["option/n"]) is None


def test_runs_of_one_sweep_are_a_group() -> None:
    tags = {1: ("sweep-2", "trial-0"), 2: ("sweep-10", "trial-0"), 3: ("sweep-2",), 4: ("paper",)}
    runs = [made_run(n, tags=each) for n, each in tags.items()]
    groups = grouped(runs, columns_of(runs)["sweep"])
    assert [(group.value, ids(group.runs)) for group in groups] == [
        (2, ["1", "3"]),
        (10, ["2"]),
        (None, ["4"]),
    ]


def test_sweeps_with_one_number_on_two_machines_are_two_groups() -> None:
    tags = ("paper", "sweep-3", "trial-0")
    there = [made_run(n, tags=tags)._replace(id=f"gpus:{n}") for n in (1, 2)]
    runs = [made_run(1, tags=("sweep-3", "trial-0")), *there]
    columns = columns_of(runs)
    by_sweep = [(each.value, ids(each.runs)) for each in grouped(runs, columns["sweep"])]
    assert by_sweep == [(3, ["1"]), ("gpus:3", ["gpus:1", "gpus:2"])]
    by_tag = [(each.value, ids(each.runs)) for each in grouped(runs, columns["tags"])]
    assert by_tag == [
        ("gpus:sweep-3", ["gpus:1", "gpus:2"]),
        ("paper", ["gpus:1", "gpus:2"]),
        ("sweep-3", ["1"]),
    ]


def test_a_run_is_in_the_group_of_each_of_its_tags() -> None:
    tags = {1: ("cifar", "paper"), 2: ("paper", "trial-3"), 3: ()}
    runs = [made_run(n, tags=each) for n, each in tags.items()]
    groups = grouped(runs, columns_of(runs)["tags"])
    assert [(group.value, ids(group.runs)) for group in groups] == [
        ("cifar", ["1"]),
        ("paper", ["1", "2"]),
        (None, ["3"]),
    ]


def test_runs_that_differ_in_their_seed_only_are_a_group() -> None:
    runs = [
        made_run(1, seed=1, learning_rate=0.1),
        made_run(2, seed=2, learning_rate=0.1),
        made_run(3, seed=1, learning_rate=0.2),
        made_run(4, seed=2, learning_rate=0.2, settings={"width": 64}),
        made_run(5, seed=3, learning_rate=0.2, settings={"width": 64, "seed": 5}),
    ]
    groups = grouped(runs, columns_of(runs)["but_seed"])
    assert [(group.value, ids(group.runs)) for group in groups] == [
        ("learning_rate 0.1", ["1", "2"]),
        ("learning_rate 0.2", ["3"]),
        ("learning_rate 0.2, width 64", ["4", "5"]),
    ]
    alike = grouped(runs[:2], columns_of(runs[:2])["but_seed"])
    assert [(group.value, len(group.runs)) for group in alike] == [("the same in all runs", 2)]


def test_scripts_that_differ_in_their_seed_only_are_a_group() -> None:
    commands = [
        ("train.py", "--lr", "0.1", "--seed", "1"),
        ("train.py", "--lr", "0.1", "--seed=2"),
        ("train.py", "--lr", "0.2", "--seed", "1"),
    ]
    runs = [made_run(n, command=each) for n, each in enumerate(commands, 1)]
    groups = grouped(runs, columns_of(runs)["but_seed"])
    assert [ids(group.runs) for group in groups] == [["1", "2"], ["3"]]
