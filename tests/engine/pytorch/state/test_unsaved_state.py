"""What a model changes beside its state_dict: found, named, and brought back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine import client
from engine.messages.events import Notice
from engine.pytorch.state.unsaved_state import UnsavedState
from engine.runs.checkpoints import checkpoint_files
from tests.support.runs import curve, events, spec, train, wait_for_end

RECIPE = """
import torch
from torch import nn

DEFAULTS = {"epochs": 2, "batch_size": 16, "learning_rate": 0.05}

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)
        self.register_buffer("count", torch.zeros(()), persistent=False)
        self.calls, self.past = 0, [0.0]

    def forward(self, x):
        if self.training:
            self.count += 1
            self.calls += 1
            self.past = [*self.past[-3:], self.calls / 7]
        return self.out(x) * (1 + 0.05 * self.count + 0.01 * self.calls + 0.02 * sum(self.past))

def model():
    return Network()

def datasets():
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    y = x.sum(1, keepdim=True)
    return (x, y), (x[:8], y[:8])

def loss(outputs, targets):
    return nn.functional.mse_loss(outputs, targets)
"""


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.inner.register_buffer("seen", torch.zeros(3), persistent=False)
        self.register_buffer("saved", torch.zeros(3))
        self.register_buffer("window", torch.zeros(0), persistent=False)
        self.average = torch.zeros(2, dtype=torch.bfloat16)
        self.rate, self.past, self.by_name = 0.5, [1, 2], {"a": (1, None)}
        self.best: float | None = None
        self.output: torch.Tensor | None = None
        self.unchanged, self.nothing, self.other = float("nan"), None, object()


def change(model: Any) -> None:
    model.inner.seen += 1
    model.saved += 1
    model.window = torch.ones(4)
    model.average = torch.ones(2, dtype=torch.bfloat16)
    model.rate, model.past, model.by_name = 0.25, [*model.past, 3], {"a": (2, None)}
    model.best, model.late = 0.125, 3
    model.output = torch.ones(2)
    model.other = object()
    model.eval()


def test_what_has_changed_is_found_and_brought_back() -> None:
    model = Network()
    unsaved = UnsavedState(model)
    assert unsaved.changed() == {}
    change(model)
    found = unsaved.changed()
    names = {"inner.seen", "window", "average", "rate", "past", "by_name", "best", "late"}
    assert found.keys() == names
    other: Any = Network()
    seen, second = other.inner.seen, UnsavedState(other)
    second.restore(found | {"gone.count": 1})
    assert {name: repr(value) for name, value in second.changed().items()} == {
        name: repr(value) for name, value in found.items()
    }
    assert other.inner.seen is seen  # in place: a graph or another module may hold it


def test_what_is_no_model_of_pytorch_has_nothing() -> None:
    assert UnsavedState(object()).changed() == {}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("strategy", "devices"), [("torch/single", 1), ("torch/ddp", 2)])
def test_a_resume_is_exact_with_what_state_dict_leaves_out(
    strategy: str, devices: int, tmp_path: Path
) -> None:
    recipe = tmp_path / "counting.py"
    recipe.write_text(RECIPE)
    options = {"checkpoint_steps": 3, "keep_checkpoints": 9, "batch_size": 16, "epochs": 2}
    info = train(spec(str(recipe), strategy, devices, **options))
    (told,) = (
        event.text
        for event in events(info)
        if isinstance(event, Notice) and "state_dict" in event.text
    )
    assert "count, calls, past" in told
    checkpoint = checkpoint_files.folders(info.folder)[3]
    resumed = wait_for_end(client.resume_as_new(info.id, checkpoint))
    assert curve(resumed, "train/loss") == curve(info, "train/loss")
