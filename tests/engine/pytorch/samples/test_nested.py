"""Batches of any nesting: moved, divided by rows, checked, and taken as inputs and targets."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from engine.pytorch.samples.nested import (
    UnusableBatch,
    first_not_finite,
    inputs_and_targets,
    rows_of,
    take_rows,
    to_device,
)
from tests.support.sentences import sentence

META = torch.device("meta")


class Named(NamedTuple):
    """A named tuple of a data set."""

    picture: torch.Tensor
    label: Any


@dataclass(frozen=True)
class Sample:
    """A data class of a data set."""

    picture: torch.Tensor
    text: str


class Movable:
    """A batch of a library, which moves itself."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def to(self, device: torch.device) -> Movable:
        return Movable(device.type)


def test_types_are_kept_when_a_batch_moves() -> None:
    moved = to_device(
        {
            "named": Named(torch.zeros(2), [torch.zeros(1), "text"]),
            "ordered": OrderedDict(a=torch.zeros(1)),
            "user": UserDict(a=torch.zeros(1)),
            "data": Sample(torch.zeros(1), "text"),
            "own": Movable(),
        },
        META,
    )
    assert isinstance(moved["named"], Named)
    assert moved["named"].label[0].device == META
    assert isinstance(moved["ordered"], OrderedDict)
    assert isinstance(moved["user"], UserDict)
    assert moved["user"]["a"].device == moved["data"].picture.device == META
    assert moved["data"].text == "text"
    assert moved["own"].device == "meta"


def test_a_batch_that_moves_is_not_changed() -> None:
    batch = UserDict(a=torch.zeros(1))
    to_device(batch, META)
    assert batch["a"].device.type == "cpu"


def test_rows_are_taken_of_every_part() -> None:
    batch = {"x": torch.arange(5), "texts": list("abcde"), "pair": (torch.ones(5, 2), np.arange(5))}
    assert rows_of(batch) == 5
    taken = take_rows(batch, slice(1, None, 2))
    assert taken["x"].tolist() == [1, 3]
    assert taken["texts"] == ["b", "d"]
    assert taken["pair"][0].shape == (2, 2)
    assert take_rows(batch, torch.tensor([4, 0]))["texts"] == ["e", "a"]


@pytest.mark.parametrize("batch", [(torch.ones(3), torch.ones(2)), torch.tensor(1.0), ["text"]])
def test_a_batch_without_common_rows_has_none(batch: Any) -> None:
    assert rows_of(batch) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_first_value_that_is_not_finite_is_found(value: float) -> None:
    pictures = torch.ones(3, 2)
    pictures[1, 0] = value
    batch = {"label": torch.tensor([1, 2, 3]), "image": pictures}
    assert first_not_finite(batch) == ("['image']", 1)
    assert first_not_finite({"label": torch.tensor([1, 2, 3]), "text": ["a"]}) is None


def test_two_parts_are_inputs_and_targets() -> None:
    assert inputs_and_targets([1, 2], has_own_loss=False) == (1, 2)
    assert inputs_and_targets({"targets": 2, "inputs": 1}, has_own_loss=False) == (1, 2)


def test_a_dictionary_is_the_inputs_of_a_recipe_with_its_own_loss() -> None:
    batch = {"image": 1, "mask": 2}
    assert inputs_and_targets(batch, has_own_loss=True) == (batch, None)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ((1, 2, 3), "3 items.*step\\(model, batch\\)"),
        ({"image": 1, "mask": 2}, "keys image, mask.*step\\(model, batch\\)"),
        (torch.ones(2, 2), sentence("single-tensor-without-targets").pattern),
    ],
    ids=["three items", "a dictionary", "a tensor"],
)
def test_a_batch_that_is_no_pair_is_refused_with_a_sentence(batch: Any, said: str) -> None:
    with pytest.raises(UnusableBatch, match=said):
        inputs_and_targets(batch, has_own_loss=False)
