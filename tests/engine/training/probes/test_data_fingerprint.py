"""What the fingerprint of training data tells, and what reading it costs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from engine.facts.run_facts import DataFacts
from engine.training.probes import data_fingerprint
from engine.training.probes.data_fingerprint import SAMPLES, chosen, draws_by_itself, fingerprint


def read_from(samples: dict[int, Any]) -> DataFacts:
    return fingerprint(len(samples), 0, samples.__getitem__)


@pytest.mark.parametrize(
    ("sample", "other"),
    [
        ((np.zeros(3), 1), (np.array([0.0, 0.0, 1e-30]), 1)),
        ((np.zeros(3), 1), (np.zeros(3), 2)),
        ({"text": "a"}, {"text": "b"}),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2, np.float32), np.zeros(1, np.float64)),
        (["ab", "c"], ["a", "bc"]),
    ],
)
def test_other_samples_have_another_hash(sample: Any, other: Any) -> None:
    one, same, changed = (
        read_from({0: each, 1: sample}).samples for each in (sample, sample, other)
    )
    assert one == same
    assert (one[0] == changed[0], one[1] == changed[1]) == (False, True)
    assert one[0] == one[1]


def test_few_samples_are_read_and_none_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()
    fingerprint(1000, 7, read.append)
    assert read == chosen(1000, 7)
    assert len(set(read)) == SAMPLES
    monkeypatch.setattr(data_fingerprint, "SECONDS", -1.0)
    assert len(fingerprint(1000, 7, read.append).samples) == 1
    assert fingerprint(3, 0).samples == {}, "only the length counts"


def test_a_sample_that_cannot_be_read_is_named_and_raises_nothing() -> None:
    found = fingerprint(5, 0, {}.__getitem__)
    assert (found.length, found.samples) == (5, {})
    assert str(chosen(5, 0)[0]) in found.problem


class Augmented:
    def __init__(self, generator: Any) -> None:
        self.generator = generator


@pytest.mark.parametrize(
    "own", [np.random.default_rng(0), np.random.RandomState(0), random.Random()]
)
def test_a_data_set_with_its_own_generator_is_not_read_once_more(own: Any) -> None:
    assert draws_by_itself(Augmented(own))
    assert not draws_by_itself(Augmented(np.zeros(3)))
    assert not draws_by_itself([1, 2])
