"""What a stage of a pipeline may give to the next one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.pytorch.parallel import Rank
from engine.pytorch.parallelism import stage_signature
from engine.pytorch.parallelism.stage_signature import stage_signatures
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import SingleProcess
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed
from tests.support.sentences import sentence

CPU = torch.device("cpu")


class Masked(nn.Module):
    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return values, values > 0


@pytest.mark.parametrize("only_floats", [True, False])
def test_a_mask_needs_a_pytorch_that_wants_no_gradient_of_it(
    monkeypatch: pytest.MonkeyPatch, only_floats: bool
) -> None:
    monkeypatch.setattr(stage_signature, "ONLY_FLOATS", only_floats)
    spec = RunSpec(recipe="r", strategy="torch/pipeline", devices=("cpu:0",) * 2)
    rank = Rank(0, 2, (CPU,), SingleProcess(), spec)
    if only_floats:
        with pytest.raises(TrainingFailed, match=sentence("stage-gives-tensor-of-bool")):
            stage_signatures(Masked(), torch.ones(2, 3), rank, Precision("fp32", "cpu"))
        return
    _, outputs = stage_signatures(Masked(), torch.ones(2, 3), rank, Precision("fp32", "cpu"))
    assert outputs
    assert [tensor.dtype for tensor in outputs.tensors] == ["float32", "bool"]
