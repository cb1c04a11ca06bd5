"""A step that is computed again draws and counts what it drew and counted at first."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import nn

from engine.pytorch.state.snapshot import Snapshot


def test_random_states_and_tensors_come_back_as_often_as_wanted() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    inputs = torch.randn(8, 3)

    def forward() -> list[float]:
        outputs = model(inputs)
        drawn = [random.random(), float(np.random.rand())]
        return [*outputs.flatten().tolist(), *drawn]

    snapshot = Snapshot(list(model.buffers()), [torch.device("cpu")])
    first = forward()
    statistics = [buffer.clone() for buffer in model.buffers()]
    for _ in range(2):
        snapshot.bring_back()
        assert forward() == first
        assert all(map(torch.equal, model.buffers(), statistics))
    snapshot.take()
    later = forward()
    assert later != first
    snapshot.bring_back()
    assert forward() == later


def test_a_model_without_buffers_has_a_snapshot_too() -> None:
    snapshot = Snapshot([], [torch.device("cpu")])
    drawn = torch.rand(2)
    snapshot.bring_back()
    assert torch.equal(torch.rand(2), drawn)
