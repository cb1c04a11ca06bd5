"""What a PyTorch checkpoint brings back, and what it never runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from engine.pytorch import checkpoint

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def random_state() -> Iterator[None]:
    """No other test sees what this one does to the random numbers."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


class Training:
    """A small network with an optimizer that has a memory."""

    def __init__(self, seed: int, width: int = 3) -> None:
        torch.manual_seed(seed)
        self.model = nn.Linear(2, width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.1)

    def step(self) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(self.model(torch.ones(1, 2)).square().sum())
        self.optimizer.step()

    def save(self, folder: Path, rank: int = 0) -> None:
        checkpoint.save(folder, self.model, self.optimizer, rank)

    def restore(self, folder: Path, rank: int = 0) -> None:
        checkpoint.restore(folder, self.model, self.optimizer, rank, CPU)


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def draw() -> list[float]:
    """The next numbers of every generator; an odd count of normals leaves one in store."""
    return [
        random.random(),
        random.gauss(),
        float(np.random.normal()),
        float(np.random.random()),
        float(torch.randn(())),
    ]


def test_a_restored_training_goes_on_exactly_like_the_one_that_was_saved(tmp_path: Path) -> None:
    original = Training(seed=1)
    original.step()
    original.save(tmp_path)
    restored = Training(seed=2)
    restored.restore(tmp_path)
    original.step()
    restored.step()
    assert torch.equal(original.model.weight, restored.model.weight)
    assert torch.equal(original.model.bias, restored.model.bias)


def test_every_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    seed_all(7)
    draw()
    Training(seed=1).save(tmp_path)
    expected = draw()
    seed_all(8)
    Training(seed=2).restore(tmp_path)
    assert draw() == expected


def test_each_rank_gets_its_own_random_state_back(tmp_path: Path) -> None:
    training = Training(seed=1)
    drawn = {}
    for rank in (0, 1):
        seed_all(rank)
        training.save(tmp_path, rank)
        drawn[rank] = draw()
    assert drawn[0] != drawn[1]
    for rank in (1, 0):
        training.restore(tmp_path, rank)
        assert draw() == drawn[rank]


def test_a_rank_that_was_not_there_keeps_its_fresh_random_state(tmp_path: Path) -> None:
    training = Training(seed=1)
    training.save(tmp_path, rank=0)
    seed_all(5)
    expected = draw()
    seed_all(5)
    training.restore(tmp_path, rank=1)
    assert draw() == expected


def test_the_weights_are_written_once_whatever_the_number_of_ranks(tmp_path: Path) -> None:
    for rank in (1, 0):
        Training(seed=rank).save(tmp_path, rank)
        names = {entry.name for entry in tmp_path.iterdir()}
        assert (checkpoint.WEIGHTS in names) is (rank == 0)
    assert names == {"model.pt", "optimizer.pt", "rank0.pt", "rank1.pt"}


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    Training(seed=1, width=3).save(tmp_path)
    with pytest.raises(RuntimeError, match="size mismatch"):
        Training(seed=1, width=4).restore(tmp_path)


class RunsCode:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("name", [checkpoint.WEIGHTS, checkpoint.OPTIMIZER, "rank0.pt"])
def test_code_in_a_checkpoint_is_never_run(name: str, tmp_path: Path) -> None:
    folder, trace = tmp_path / "checkpoint", tmp_path / "code was here"
    folder.mkdir()
    training = Training(seed=1)
    training.save(folder)
    torch.save(RunsCode(trace), folder / name)
    with pytest.raises(Exception, match="weights_only"):
        training.restore(folder)
    assert not trace.exists()
