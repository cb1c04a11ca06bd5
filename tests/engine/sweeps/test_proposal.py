"""A sweep from what a person asks for, and what is refused with a sentence."""

from __future__ import annotations

import msgspec
import pytest

from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.sweeps.proposal import (
    DEFAULT_TRIALS,
    OPTIONS,
    SweepOptions,
    first_problems,
    parse_settings,
    propose,
)
from engine.sweeps.ranges import CannotSweep, Choices, sweepable
from engine.sweeps.sweep import Sweep
from tests.support.sentences import sentence

RECIPE = catalog.recipe("digits")
KNOWN = sweepable(RECIPE)
BASE = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))


def proposed(*texts: str, base: RunSpec = BASE, **options: object) -> Sweep:
    ranges, fixed = parse_settings(texts, KNOWN)
    return propose(base, RECIPE, ranges, fixed, SweepOptions(**options))  # type: ignore[arg-type]


def test_ranges_and_single_values_go_where_they_belong() -> None:
    sweep = proposed("learning_rate=1e-3..1e-1:log", "width=16,64", "epochs=3", "dropout=0.3")
    assert set(sweep.ranges) == {"learning_rate", "width"}
    assert sweep.own_settings == ("width",)
    assert sweep.base.epochs == 3
    assert sweep.base.settings == {"dropout": 0.3}
    assert (sweep.trials, sweep.parallel, sweep.sampler) == (DEFAULT_TRIALS, 1, "tpe")
    assert first_problems(sweep) == []


def test_a_grid_is_as_large_as_its_combinations_unless_fewer_are_wanted() -> None:
    texts = ("seed=0..4", "width=16,32")
    assert proposed(*texts, sampler="grid", whole_grid=True).trials == 10
    assert proposed(*texts, sampler="grid", trials=3).trials == 3
    assert proposed(*texts, sampler="grid", trials=30).trials == 10


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("", ("", True)),
        ("accuracy", ("accuracy", False)),
        ("val/novelty:max", ("validation/novelty", False)),
        ("novelty:min", ("novelty", True)),
        ("train/loss", ("train/loss", True)),
        ("train/accuracy:max", ("train/accuracy", False)),
    ],
)
def test_the_metric_says_which_way_is_better(metric: str, expected: tuple[str, bool]) -> None:
    sweep = proposed("width=16,32", metric=metric)
    assert (sweep.metric, sweep.lowest) == expected


@pytest.mark.parametrize(("metric", "lowest"), [("val/novelty", True), ("novelty:max", False)])
def test_the_recipe_may_say_which_way_is_better(metric: str, lowest: bool) -> None:
    recipe = msgspec.structs.replace(RECIPE, metric_directions={"novelty": "min"})
    ranges, fixed = parse_settings(["width=16,32"], KNOWN)
    assert propose(BASE, recipe, ranges, fixed, SweepOptions(metric=metric)).lowest is lowest


@pytest.mark.parametrize(
    ("texts", "options", "why"),
    [
        ((), {}, "A sweep needs a range"),
        (("width=16",), {}, "A sweep needs a range"),
        (("width=16,32", "width=8,64"), {}, "width is set twice"),
        (("width=16,32", "width=8"), {}, "width is set twice"),
        (("width=16,32",), {"trials": 0}, "1 to 10,000 runs, not 0"),
        (("width=16,32",), {"trials": -3}, "not -3"),
        (("width=16,32",), {"trials": 10**9}, "not 1,000,000,000"),
        (("width=16,32",), {"seed": -1}, sentence("seed-of-sampler").pattern),
        (("width=16,32",), {"parallel": 0}, sentence("at-least-run-at-one-time").pattern),
        (
            ("learning_rate=1e-3..1e-1",),
            {"sampler": "grid"},
            sentence("grid-needs-single-values").pattern,
        ),
        (
            ("seed=0..900", "width=1..900"),
            {"sampler": "grid", "whole_grid": True},
            sentence("this-grid-has-combinations", combinations="810,900").pattern,
        ),
        (
            ("seed=0..9000",),
            {"sampler": "grid"},
            sentence("grid-needs-single-values-of", setting="seed").pattern,
        ),
    ],
)
def test_what_cannot_be_swept_is_refused(
    texts: tuple[str, ...], options: dict[str, object], why: str
) -> None:
    with pytest.raises(CannotSweep, match=why):
        proposed(*texts, **options)


def test_the_form_has_a_field_for_each_option() -> None:
    assert list(OPTIONS) == ["sampler", "trials", "parallel", "pruner", "metric", "seed"]
    assert all(each.doc and each.label for each in OPTIONS.values())


def test_devices_that_cannot_be_shared_are_refused() -> None:
    base = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1", "cpu:2"))
    with pytest.raises(
        CannotSweep, match=sentence("devices-cannot-be-shared-equally", devices=3, runs=2).pattern
    ):
        proposed("width=16,32", base=base, parallel=2)


def test_values_with_which_no_run_could_start_are_found_before() -> None:
    base = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
    sweep = propose(base, RECIPE, {"batch_size": Choices((64, 1))}, {}, SweepOptions())
    assert [each.field for each in first_problems(sweep)] == ["batch_size"]
