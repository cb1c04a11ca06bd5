"""The columns of the table of runs, and the names that mean them."""

from __future__ import annotations

import msgspec
import pytest

from engine.runs.table.columns import Kind, columns_of, options_in
from engine.runs.table.filter import compile_filter
from engine.runs.table.names import UnknownName, find_column
from tests.support.made_runs import made_run


def test_settings_options_and_metrics_of_all_runs_are_columns() -> None:
    runs = [
        made_run(1, settings={"width": 3}, metrics={"train/loss": 0.5}),
        made_run(2, best={"validation/f1": 0.5}, command=("a.py", "--depth", "2")),
    ]
    columns = columns_of(runs, {"cpu:0": "CPU"})
    read = {name: [column.read(info) for info in runs] for name, column in columns.items()}
    assert read["settings/width"] == [3, None]
    assert read["option/depth"] == [None, 2]
    assert read["train/loss"] == [0.5, None]
    assert read["best(validation/f1)"] == [None, 0.5]
    assert read["devices"] == [("CPU",), ("CPU",)]
    assert read["time"] == [60.0, 60.0]
    assert columns["train/loss"].lower_is_better
    assert columns["compile"].kind is Kind.FLAG


def test_the_energy_of_a_run_is_a_column_and_empty_where_it_is_not_known() -> None:
    known, unknown = made_run(1), made_run(2)
    known = known._replace(status=msgspec.structs.replace(known.status, energy=12.5))
    column = columns_of([known, unknown])["energy"]
    assert [column.read(info) for info in (known, unknown)] == [12.5, None]
    assert compile_filter("energy > 10", columns_of([known]))(known)


def test_a_metric_with_the_name_of_a_column_leaves_that_to_all_runs() -> None:
    logged = dict.fromkeys(("epoch", "lr", "Batch-Size", "name", "settings/a", "fid"), 29.0)
    runs = [
        made_run(1, learning_rate=1e-4, settings={"a": 3}, tags=("x",)),
        made_run(2, command=("a.py", "--lr=0.1"), metrics=logged),
    ]
    columns = columns_of(runs)
    read = {name: [column.read(info) for info in runs] for name, column in columns.items()}
    assert read["name"] == ["digits", "digits"]
    assert read["settings/a"] == [3, None]
    for name in logged.keys() - {"fid"}:
        assert read[f"metric/{name}"] == [None, 29.0]
    assert read["fid"] == [None, 29.0]
    for name in ("lr", "LR", "learning-rate"):
        assert find_column(name, columns).name == "learning_rate"
    assert find_column("epoch", columns).kind is Kind.NUMBER
    assert not compile_filter("epoch == 29", columns)(runs[1])
    assert compile_filter("last(epoch) == 29", columns)(runs[1])


def test_a_script_has_only_the_settings_that_it_was_given() -> None:
    runs = [
        made_run(1, command=("a.py", "--lr=0.1", "--per-device-train-batch-size", "32")),
        made_run(2, command=("a.py", "--optim", "sgd", "--epochs", "many")),
        made_run(3, learning_rate=0.2),
    ]
    columns = columns_of(runs)
    read = {name: [columns[name].read(info) for info in runs] for name in columns}
    assert read["learning_rate"] == [0.1, None, 0.2]
    assert read["batch_size"] == [32, None, 128]
    assert read["optimizer"] == [None, "sgd", "recipe"]
    assert read["epochs"] == [None, None, 5]
    assert read["max_restarts"] == [0, 0, 0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--lr", "-0.5"), {"lr": -0.5}),
        (("--a=1=2", "--flag", "--b", "x"), {"a": "1=2", "flag": True, "b": "x"}),
        (("+model.dim=3", "other"), {"model.dim": 3}),
        (("-m", "pkg", "--on=True"), {"m": "pkg", "on": True}),
        (("--password", "abc", "--token=t"), {}),
    ],
)
def test_options_are_read_from_the_command(
    words: tuple[str, ...], expected: dict[str, object]
) -> None:
    assert options_in(("train.py", *words)) == expected


def test_a_short_name_means_one_column_or_is_refused() -> None:
    runs = [
        made_run(
            1,
            settings={"width": 1, "gamma": 2},
            metrics={"validation/loss": 1.0, "train/loss": 1.0},
            command=("a.py", "--gamma=3"),
        )
    ]
    columns = columns_of(runs)
    for short, name in {
        "width": "settings/width",
        "loss": "validation/loss",
        "val/loss": "validation/loss",
        "LR": "learning_rate",
        "batch-size": "batch_size",
    }.items():
        assert find_column(short, columns).name == name
    with pytest.raises(UnknownName, match="“settings/gamma” or “option/gamma”"):
        find_column("gamma", columns)
    with pytest.raises(UnknownName, match="“width”"):
        find_column("widht", columns)
