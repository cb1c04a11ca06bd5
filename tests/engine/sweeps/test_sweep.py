"""A sweep on disk, and what each of its runs is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.spec.run_spec import RunSpec
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import Choices, Interval
from engine.sweeps.study import TrialResult, best_of
from engine.sweeps.sweep import NoSuchSweep, Sweep
from tests.support.full_disk import fill, small_disk


def made(devices: tuple[str, ...] = ("cpu:0",), **changes: Any) -> Sweep:
    base = RunSpec(
        recipe="digits", strategy="torch/single", devices=devices, settings={"dropout": 0.2}
    )
    ranges = {"learning_rate": Interval(1e-4, 0.1, log=True), "width": Choices((16, 32))}
    wanted: dict[str, Any] = {"base": base, "ranges": ranges, "trials": 4}
    return Sweep(**(wanted | {"own_settings": ("width",)} | changes))


def test_a_sweep_is_read_as_it_was_written() -> None:
    sweep = made(sampler="random", pruner="median", metric="validation/accuracy", lowest=False)
    folder = sweeps.create(sweep)
    assert folder.name == "1"
    assert sweeps.read(folder) == sweep
    assert sweeps.create(sweep).name == "2"
    assert [each.name for each in sweeps.folders()] == ["2", "1"]
    assert (folder / sweeps.FILE_NAME).stat().st_mode & 0o077 == 0
    assert not sweeps.is_active(folder)


def test_a_sweep_whose_settings_name_the_weights_of_a_twin_run_is_read() -> None:
    folder = sweeps.create(made())
    file = folder / sweeps.FILE_NAME
    file.write_text(file.read_text().replace("[base]\n", '[base]\ninitial_weights = ""\n'))
    assert "initial_weights" in file.read_text()
    assert sweeps.read(folder) == made()


def test_fields_and_settings_of_the_recipe_go_where_they_belong() -> None:
    spec = made().spec_of({"learning_rate": 0.01, "width": 32}, 0)
    assert spec.learning_rate == 0.01
    assert spec.settings == {"dropout": 0.2, "width": 32}
    assert spec.devices == ("cpu:0",)


def test_parallel_runs_share_the_devices_equally() -> None:
    sweep = made(("GPU-0", "GPU-1", "GPU-2", "GPU-3"), parallel=2)
    assert [sweep.devices_of(slot) for slot in (0, 1)] == [("GPU-0", "GPU-1"), ("GPU-2", "GPU-3")]
    assert made(parallel=3).devices_of(2) == ("cpu:0",)


@pytest.mark.parametrize(
    ("metric", "known", "expected"),
    [
        ("", ("train/loss", "validation/loss"), "validation/loss"),
        ("", ("train/loss",), "train/loss"),
        ("accuracy", ("train/accuracy", "validation/accuracy"), "validation/accuracy"),
        ("train/accuracy", ("train/accuracy", "validation/accuracy"), "train/accuracy"),
        ("mae", ("mae",), "mae"),
        ("mae", ("validation/loss",), "mae"),
    ],
)
def test_the_metric_may_be_named_without_its_data_set(
    metric: str, known: tuple[str, ...], expected: str
) -> None:
    assert made(metric=metric).series(known) == expected


def test_while_a_run_trains_its_training_loss_stands_for_nothing() -> None:
    assert made().series(("train/loss",), is_over=False) == "loss"
    assert made().series(("train/loss", "validation/loss"), is_over=False) == "validation/loss"
    assert made(metric="train/loss").series(("train/loss",), is_over=False) == "train/loss"


@pytest.mark.parametrize("number", ["7", "../1", "", "one"])
def test_an_unknown_sweep_is_named(number: str) -> None:
    sweeps.create(made())
    with pytest.raises(NoSuchSweep, match=f"There is no sweep {number}; there are: 1."):
        sweeps.folder_of(number)


def test_a_damaged_sweep_is_a_sentence() -> None:
    folder = sweeps.create(made())
    (folder / sweeps.FILE_NAME).write_text("trials = 'many'")
    with pytest.raises(NoSuchSweep, match="Sweep 1 cannot be read"):
        sweeps.read(folder)


def test_the_best_trial_is_a_finished_one() -> None:
    trials = [
        TrialResult(0, "1", "finished", {}, 0.5),
        TrialResult(1, "2", "pruned", {}, 0.1),
        TrialResult(2, "3", "finished", {}, 0.4),
        TrialResult(3, "4", "failed", {}, None),
    ]
    assert best_of(trials, lowest=True) == trials[2]
    assert best_of(trials, lowest=False) == trials[0]
    assert best_of(trials[3:], lowest=True) is None


@pytest.mark.usefixtures("processes")
def test_a_full_disk_has_room_for_the_reason(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "64k"):
        sweeps.note_reason(disk, "")
        fill(disk / "big")
        with pytest.raises(OSError, match="No space left"):
            (disk / "more").write_text("more")
        sweeps.note_reason(disk, "The disk is full.")
        assert sweeps.reason_of(disk) == "The disk is full."
        sweeps.note_reason(disk, "Full.")
        assert sweeps.reason_of(disk) == "Full."
