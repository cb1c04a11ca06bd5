"""Which modules FSDP gathers as units."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.pytorch.parallel import Rank
from engine.pytorch.parallelism import fsdp
from engine.pytorch.process_group import SingleProcess
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed


class Network(nn.Module):
    """Two repeated blocks in a list, and a small head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)) for _ in range(2)
        )
        self.head = nn.Linear(16, 1)


def names(model: nn.Module) -> list[str]:
    known = {id(module): name for name, module in model.named_modules()}
    return [known[id(unit)] for unit in fsdp._units(model)]


def test_a_small_model_is_gathered_as_a_whole() -> None:
    assert names(Network()) == [""]


def test_large_blocks_of_a_list_are_gathered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsdp, "MIN_UNIT_PARAMETERS", 500)
    assert names(Network()) == ["blocks.1", "blocks.0", ""]


def test_inner_blocks_come_before_outer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsdp, "MIN_UNIT_PARAMETERS", 200)
    found = names(Network())
    assert found.index("blocks.0.2") < found.index("blocks.0")
    assert found[-1] == ""
    assert "head" not in found


def test_a_block_with_a_tied_weight_is_gathered_with_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fsdp, "MIN_UNIT_PARAMETERS", 200)
    model = Network()
    model.blocks[0][2].weight = model.blocks[0][0].weight
    assert names(model) == ["blocks.1.2", "blocks.1.0", "blocks.1", "blocks.0", ""]
    model.blocks[0][2].weight = model.blocks[1][2].weight
    assert names(model) == ["blocks.1.0", "blocks.0.0", ""]


def test_sparse_gradients_are_refused_by_name_before_anything_is_sharded() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.EmbeddingBag(3, 2, sparse=True))
    spec = RunSpec(recipe="r", strategy="torch/fsdp", devices=())
    rank = Rank(0, 2, (torch.device("cpu"),), SingleProcess(), spec)
    with pytest.raises(TrainingFailed, match="gradients of 1"):
        fsdp.FSDPModel(model, rank)
