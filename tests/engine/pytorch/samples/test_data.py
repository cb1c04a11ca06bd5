"""A recipe's data for PyTorch: any batch of samples by their indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from engine.pytorch.samples import data as pytorch_data
from engine.pytorch.samples.data import ALIGNMENT, Columns, Samples, TensorSamples, to_device
from engine.pytorch.samples.loader import MapSamples
from engine.training.sample_order import epoch_order, replica_samples

COUNT = 10
INPUTS = np.arange(2 * COUNT, dtype=np.float32).reshape(COUNT, 2)
TARGETS = np.arange(COUNT, dtype=np.int64)


class Example(NamedTuple):
    """Inputs with names."""

    picture: torch.Tensor
    label: torch.Tensor


class Pictures(Dataset[tuple[np.ndarray, int]]):
    """A map-style data set that makes a sample when it is asked for one."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        assert isinstance(index, int)  # many data sets do not take numpy's numbers
        return INPUTS[index], int(TARGETS[index])


class Endless(IterableDataset[int]):
    """A data set without random access."""

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def samples(dataset: Any) -> Samples:
    return pytorch_data.as_samples(dataset, seed=0, loader_workers=0, device=torch.device("cpu"))


FORMS: dict[str, Any] = {
    "arrays": (INPUTS, TARGETS),
    "list of arrays": [INPUTS, TARGETS],
    "tensors": (torch.from_numpy(INPUTS), torch.from_numpy(TARGETS)),
    "tensor data set": TensorDataset(torch.from_numpy(INPUTS), torch.from_numpy(TARGETS)),
    "map-style data set": Pictures(),
    "list of pairs": [(INPUTS[k], int(TARGETS[k])) for k in range(COUNT)],
}


@pytest.fixture(params=FORMS.values(), ids=FORMS.keys())
def data(request: pytest.FixtureRequest) -> Samples:
    return samples(request.param)


def test_every_form_gives_the_samples_that_are_asked_for(data: Samples) -> None:
    (first, second) = data.batches([np.array([7, 0, 3]), np.array([9])], epoch=0)
    inputs, targets = first
    assert len(data) == COUNT
    assert second[1].tolist() == [9]
    assert inputs.tolist() == [[14.0, 15.0], [0.0, 1.0], [6.0, 7.0]]
    assert targets.tolist() == [7, 0, 3]
    assert (inputs.dtype, targets.dtype) == (torch.float32, torch.int64)


def test_every_form_takes_the_share_of_a_replica(data: Samples) -> None:
    mine = replica_samples(epoch_order(COUNT, seed=0, epoch=0), 1, 3)  # a view with strides
    [(_, targets)] = data.batches([mine], epoch=0)
    assert targets.tolist() == mine.tolist()


def test_arrays_are_indexed_at_once_and_data_sets_sample_by_sample() -> None:
    assert isinstance(samples(FORMS["arrays"]), TensorSamples)
    assert isinstance(samples(FORMS["tensor data set"]), TensorSamples)
    assert isinstance(samples(FORMS["map-style data set"]), MapSamples)


def test_tensors_can_be_kept_on_a_device() -> None:
    data = TensorSamples(torch.from_numpy(INPUTS), torch.from_numpy(TARGETS))
    assert data.bytes == INPUTS.nbytes + TARGETS.nbytes
    data.move(torch.device("meta"))
    [(inputs, targets)] = data.batches([np.array([7, 0, 3])], epoch=0)
    assert (inputs.device.type, tuple(inputs.shape)) == ("meta", (3, 2))
    assert targets.device.type == "meta"


def test_arrays_stay_on_the_host_until_the_model_has_its_memory() -> None:
    # Here there is no GPU: to ask one for its memory would fail.
    gpu = torch.device("cuda")
    given = pytorch_data.as_samples((INPUTS, TARGETS), seed=0, loader_workers=0, device=gpu)
    [(inputs, _)] = given.batches([np.array([1])], epoch=0)
    assert inputs.is_cpu


@pytest.mark.parametrize(("free", "moves"), [(4, False), (5, True)])
def test_arrays_move_to_a_gpu_of_which_they_need_a_small_part(
    free: int, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = TensorSamples(torch.from_numpy(INPUTS), torch.from_numpy(TARGETS))
    moved: list[torch.device] = []
    monkeypatch.setattr(data, "move", moved.append)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free * data.bytes, 0))
    data.move_to_gpu(torch.device("cpu"))
    assert moved == []
    data.move_to_gpu(torch.device("cuda", 1))
    assert moved == ([torch.device("cuda", 1)] if moves else [])


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        ((INPUTS, TARGETS[:-1]), "10 inputs but 9 targets"),
        ((INPUTS[:0], TARGETS[:0]), "an empty data set"),
        ([], "an empty data set"),
        (None, "gave a NoneType"),
        (iter([1]), "gave a list_iterator"),
        (Endless(), "gave a Endless"),
    ],
    ids=["unequal", "empty arrays", "empty list", "nothing", "an iterator", "no random access"],
)
def test_what_is_no_data_is_refused_with_a_sentence(dataset: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        samples(dataset)


def test_any_nesting_of_tensors_moves_to_the_device() -> None:
    batch = {"a": torch.zeros(2), "b": [torch.zeros(1), (torch.zeros(3), "text")]}
    moved = to_device(batch, torch.device("meta"))
    assert moved["a"].device.type == "meta"
    assert moved["b"][0].device.type == "meta"
    assert isinstance(moved["b"][1], tuple)
    assert moved["b"][1][0].device.type == "meta"
    assert moved["b"][1][1] == "text"


def test_a_named_tuple_stays_one() -> None:
    moved = to_device(Example(torch.zeros(2), torch.zeros(1)), torch.device("meta"))
    assert isinstance(moved, Example)
    assert moved.label.device.type == "meta"


SMALL = [np.arange(k, k + 2) for k in range(0, COUNT, 2)]


@pytest.mark.parametrize("width", [8, 3], ids=["aligned", "not aligned"])
def test_batches_that_are_taken_at_once_are_as_if_each_had_its_own_memory(width: int) -> None:
    rows = torch.arange(COUNT * 2 * width, dtype=torch.float64).view(COUNT, width, 2)
    data = Columns({"a": rows.clone(), "b": (rows.float() * 2,)})
    asked = [*SMALL, np.array([5])]
    for indices, batch in zip(asked, data.batches(iter(asked), epoch=0), strict=True):
        assert torch.equal(batch["a"], rows[indices])
        assert torch.equal(batch["b"][0], rows[indices].float() * 2)
        assert batch["a"].data_ptr() % ALIGNMENT["cpu"] == 0
        assert batch["a"]._version == 0
        batch["a"].zero_()


def test_batches_of_several_sizes_are_those_that_are_asked_for() -> None:
    data = Columns(torch.arange(COUNT * 16, dtype=torch.float32).view(COUNT, 16))
    asked = [np.array(rows) for rows in ([0, 1], [2], [3, 4, 5], [6])]
    assert [batch[:, 0].tolist() for batch in data.batches(asked, epoch=0)] == [
        [16.0 * row for row in rows] for rows in asked
    ]


def test_batches_that_were_taken_ahead_move_with_the_data() -> None:
    data = Columns(torch.zeros(COUNT, 16))
    batches = data.batches(SMALL, epoch=0)
    assert next(batches).is_cpu
    data.move(torch.device("meta"))
    assert {batch.device.type for batch in batches} == {"meta"}
