"""The first difference within a step, from figures that are made up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.planning.replays.step_differences import (
    StepOfRun,
    first_difference,
    initial_difference,
    relative,
    unmatched,
)
from engine.planning.results import Inspection
from engine.training.probes.step_inspection import (
    Inputs,
    LayerFigures,
    ParameterFigures,
    SampleFigures,
    joined,
)

NEAR = 1e-5


def layer(name: str, kind: str = "Linear", **given: Any) -> LayerFigures:
    known = {"mean": 0.1, "smallest": -1.0, "largest": 1.0, "not_finite": 0.0, "count": 8}
    known |= {"root_mean_square": 0.5, "mean_size": 0.4}
    return LayerFigures(name=name, kind=kind, **known | given)


def parameter(name: str, **given: Any) -> ParameterFigures:
    known = {"weight_norm": 1.0, "gradient_norm": 1.0, "update_norm": 0.1}
    return ParameterFigures(name=name, **known | given)


def sample(number: int, **given: Any) -> SampleFigures:
    inputs = Inputs(smallest=0.0, largest=1.0, mean=0.5)
    return SampleFigures(name=f"sample {number}", rank=0, **{"inputs": inputs, **given})


def step(
    run: int,
    layers: tuple[LayerFigures, ...] = (),
    parameters: tuple[ParameterFigures, ...] = (),
    samples: tuple[SampleFigures, ...] = (),
    loss: float = 0.5,
    **given: Any,
) -> StepOfRun:
    seen = Inspection(
        answer="",
        samples=samples,
        samples_in_all=given.pop("in_all", len(samples)),
        layers=layers,
        parameters=parameters,
        **given,
    )
    return StepOfRun(f"run {run}", seen, loss)


@pytest.mark.parametrize(
    ("one", "other", "cause", "name"),
    [
        ({"samples": (sample(1),)}, {"samples": (sample(2),)}, "samples", ""),
        ({"samples": (sample(1),)}, {"samples": (sample(1), sample(2))}, "samples", ""),
        (
            {"samples": (sample(1, target="3"),)},
            {"samples": (sample(1, target="4"),)},
            "samples", "",
        ),
        (
            {"samples": (sample(1),)},
            {"samples": (sample(1, inputs=Inputs(smallest=0.0, largest=255.0, mean=127.0)),)},
            "samples", "",
        ),
        (
            {"layers": (layer("a"), layer("b"), layer("c"))},
            {"layers": (layer("a"), layer("b", largest=1.1), layer("c", mean=0.3)), "loss": 1.0},
            "layer", "b",
        ),
        ({"layers": (layer("a"),)}, {"layers": (layer("a", not_finite=0.5),)}, "layer", "a"),
        ({"layers": (layer("a"),)}, {"layers": (layer("a"),), "loss": 0.6}, "loss", ""),
        (
            {"parameters": (parameter("a"), parameter("b"))},
            {"parameters": (parameter("a", gradient_norm=2.0), parameter("b", gradient_norm=2.0))},
            "gradient", "b",
        ),
        (
            {"parameters": (parameter("a"),)},
            {"parameters": (parameter("a", gradient_norm=None),)},
            "gradient", "a",
        ),
        (
            {"parameters": (parameter("a", optimizer="SGD, lr=0.1, weight_decay=0"),)},
            {"parameters": (parameter("a", update_norm=0.2, optimizer="SGD, lr=0.2"),)},
            "update", "a",
        ),
    ],
)  # fmt: skip
def test_what_differs_first_is_named(
    one: dict[str, Any], other: dict[str, Any], cause: str, name: str
) -> None:
    found = first_difference(step(1, **one), step(2, **other), NEAR)
    assert found is not None
    assert (found.cause, found.name) == (cause, name)
    assert first_difference(step(1, **one), step(2, **one), 0.0) is None


@pytest.mark.parametrize(("tolerance", "differs"), [(NEAR, False), (0.0, True)])
def test_rounding_is_no_difference_unless_every_bit_counts(tolerance: float, differs: bool) -> None:
    one = step(1, (layer("a"),), (parameter("w"),))
    other = step(2, (layer("a", mean=0.1 + 1e-7),), (parameter("w"),))
    assert (first_difference(one, other, tolerance) is not None) is differs


def test_a_gradient_that_rounding_has_left_says_nothing_of_its_update_and_weight() -> None:
    """The gradient of a bias before a BatchNorm is 0; Adam makes updates of what is left of it."""
    weight = parameter("weight")
    one = step(1, (), (weight, parameter("bias", gradient_norm=1e-9, update_norm=1e-3)))
    other = step(
        2, (), (weight, parameter("bias", gradient_norm=3e-9, update_norm=2e-3, weight_norm=1.1))
    )
    assert first_difference(one, other, NEAR) is None
    assert initial_difference(one, other, NEAR, is_trained=True) is None
    initial = initial_difference(one, other, NEAR, is_trained=False)
    assert initial is not None
    assert initial.name == "bias"


def test_mode_settings_and_the_layer_before_are_told() -> None:
    first = layer("first")
    norm = layer("norm", "BatchNorm2d", is_training=True, settings="4, eps=1e-05, affine=True")
    changed = layer(
        "norm", "BatchNorm2d", mean=0.2, is_training=False, settings="4, eps=0.1, affine=True"
    )
    found = first_difference(step(1, (first, norm)), step(2, (first, changed)), NEAR)
    assert found is not None
    for phrase in ("training mode in run 1", "eps=1e-05 in run 1", "eps=0.1 in run 2", "first"):
        assert phrase in found.text
    assert "affine" not in found.text


def test_layers_of_two_frameworks_are_matched_by_order_and_kind() -> None:
    keras = (layer("conv2d", "Conv2D"), layer("flatten", "Flatten"), layer("dense", "Dense"))
    torch = (layer("0", "ZeroPad2d"), layer("1", "Conv2d"), layer("2", "Linear", mean=0.2))
    one = step(1, keras, (parameter("conv2d/kernel"), parameter("dense/kernel")))
    other = step(2, torch, (parameter("1.weight"), parameter("2.weight")))
    found = first_difference(one, other, NEAR)
    assert found is not None
    assert found.name == "dense"
    assert any("flatten" in note for note in unmatched(one, other))
    assert any("run 2" in note and ": 0." in note for note in unmatched(one, other))


def test_evaluation_beside_training_is_compared_up_to_the_first_batch_norm() -> None:
    norm, dense = layer("norm", "BatchNormalization"), layer("dense", "Dense")
    one = step(1, (norm, dense))
    other = step(2, (layer("norm", "BatchNormalization", mean=9.0), dense), in_evaluation=True)
    assert first_difference(one, other, NEAR) is None
    assert any("evaluation mode" in note for note in unmatched(one, other))


@pytest.mark.parametrize(
    ("one", "other", "size"),
    [(math.nan, math.nan, 0.0), (math.inf, 1.0, math.inf), (1.0, 2.0, 0.5), (0.0, 0.0, 0.0)],
)
def test_a_relative_difference_is_one_of_numbers_that_are_finite(
    one: float, other: float, size: float
) -> None:
    assert relative(one, other) == size


def test_parts_of_a_layer_count_by_their_size() -> None:
    small = layer("a", mean=1.0, root_mean_square=3.0, mean_size=1.0, count=10)
    large = layer("a", mean=2.0, root_mean_square=3.0, mean_size=2.0, count=30, largest=5.0)
    whole = joined([small, large])
    assert (whole.mean, whole.root_mean_square, whole.count) == (1.75, 3.0, 40)
    assert (whole.smallest, whole.largest) == (-1.0, 5.0)
    broken = layer("a", mean=math.nan, not_finite=1.0, count=40)
    assert joined([whole, broken]).mean == 1.75
    assert joined([whole, broken]).not_finite == 0.5
