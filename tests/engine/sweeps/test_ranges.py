"""Ranges of a sweep, as a person writes them, and what is wrong with some."""

from __future__ import annotations

import pytest

from engine.spec import catalog
from engine.sweeps.ranges import (
    Choices,
    Interval,
    UnusableRange,
    grid_size,
    grid_values,
    parse_setting,
    sweepable,
)
from tests.support.sentences import sentence

KNOWN = sweepable(catalog.recipe("digits"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate=1e-4..1e-1:log", Interval(1e-4, 0.1, log=True)),
        ("learning_rate = 0.1 .. 0.5 ", Interval(0.1, 0.5)),
        ("learning_rate=1..2", Interval(1.0, 2.0)),
        ("seed=0..4", Interval(0, 4, whole=True)),
        ("batch_size=8..512:log", Interval(8, 512, log=True, whole=True)),
        ("batch_size=16,32,64", Choices((16, 32, 64))),
        ("optimizer=sgd, adamw", Choices(("sgd", "adamw"))),
        ("deterministic=true,false", Choices((True, False))),
        ("width=16,32", Choices((16, 32))),
        ("dropout=0..0.5", Interval(0.0, 0.5)),
        ("activation=relu,tanh", Choices(("relu", "tanh"))),
        ("width=64", 64),
        ("width=2..2", 2),
        ("learning_rate=0.5..0.5:log", 0.5),
        ("epochs=3", 3),
    ],
)
def test_a_range_is_read_as_it_is_written(text: str, expected: object) -> None:
    name, found = parse_setting(text, KNOWN)
    assert name == text.partition("=")[0].strip()
    assert found == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("learning_rate", sentence("set-takes-value-or-range")),
        ("=1..2", sentence("set-takes-value-or-range")),
        ("nothing=1,2", sentence("nothing-cannot-be-in-sweep")),
        ("queue=gpus,never", sentence("queue-cannot-be-in-sweep-all")),
        ("optimizer=sgd..adamw", sentence("optimizer-is-no-number-name-values")),
        ("optimizer=sgd,none", "must be one of"),
        ("learning_rate=2..1", "learning_rate=2..1 is empty"),
        ("learning_rate=0..1", "must be above 0"),
        ("weight_decay=0..1:log", sentence("logarithmic-range-begins-above")),
        ("batch_size=1.5..4", sentence("must-be-whole-number", value="1.5")),
        ("batch_size=16,sixteen", sentence("must-be-whole-number", value="sixteen")),
        ("batch_size=16,16", "has a value twice"),
        ("learning_rate=1e-3,1e400", sentence("must-be-smaller-number")),
        ("dropout=nan..1", "finite number"),
        ("dropout=nan,nan", "finite number"),
        ("dropout=-inf..1", "finite number"),
        ("learning_rate=..", sentence("must-be-number", value="..")),
        ("learning_rate=1..", sentence("must-be-number", value="1..")),
        ("learning_rate=", "must be a number, not ''"),
        ("width=16,,32", sentence("must-be-whole-number", value="")),
        ("batch_size=16,", "must be a whole number"),
        ("seed=-1..4", "must be at least 0"),
        ("learning_rate=1e-4...1e-1", "must be a number"),
    ],
)
def test_an_unusable_range_is_named(text: str, why: str) -> None:
    with pytest.raises(UnusableRange) as refused:
        parse_setting(text, KNOWN)
    assert why in str(refused.value)


def test_a_grid_counts_all_combinations() -> None:
    ranges = {"seed": Interval(0, 4, whole=True), "batch_size": Choices((16, 32))}
    assert grid_size(ranges) == 10
    assert list(grid_values("seed", ranges["seed"])) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("endless", [Interval(0.0, 1.0), Interval(0, 10_000, whole=True)])
def test_a_grid_of_endless_values_is_refused(endless: Interval) -> None:
    with pytest.raises(
        UnusableRange, match=sentence("grid-needs-single-values-of", setting="rate").pattern
    ):
        grid_size({"rate": endless})
