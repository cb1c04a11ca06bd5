"""A loss that is NaN on one rank: the update of that step is left out on all of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from engine.client import RunInfo
from engine.messages.events import Notice
from engine.runs.run_state import RunState
from gui.style.state_style import state_text
from main import main
from tests.support.contract import last_checkpoint
from tests.support.runs import RECIPES, curve, events, logs, spec, train
from tests.support.sentences import sentence
from tests.support.weights import largest_difference

pytestmark = pytest.mark.usefixtures("processes")

EPOCHS = 3

ONLY_THE_LOSS = """

plain_loss = loss
steps = 0

def loss(outputs, targets):
    \"\"\"At step 7 the loss of the last rank is NaN, and no gradient is.\"\"\"
    global steps
    steps += torch.is_grad_enabled()
    is_last = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    return plain_loss(outputs, targets) + (float("nan") if is_last and steps == 7 else 0.0)
"""


def test_all_ranks_leave_out_a_step_whose_loss_is_nan_on_one(tmp_path: Path) -> None:
    probe = (RECIPES / "probe_torch.py").read_text()
    recipe = tmp_path / "damaged.py"
    begin = "    return (images[:97]"
    recipe.write_text(probe.replace(begin, f"    images[5] = np.nan\n{begin}") + ONLY_THE_LOSS)

    def trained(strategy: str, devices: int) -> RunInfo:
        info = train(spec(str(recipe), strategy, devices, epochs=EPOCHS, on_nan="skip"))
        assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
        return info

    alone, together = trained("torch/single", 1), trained("torch/ddp", 2)
    for info in (alone, together):
        steps, losses = curve(info, "train/loss")
        assert len(steps) == 4 * EPOCHS, "a step that is left out counts"
        bad = [step for step, loss in zip(steps, losses, strict=True) if not math.isfinite(loss)]
        assert len(bad) == EPOCHS + 1, "the damaged sample comes once an epoch"
        assert 7 in bad
        [notice] = [event for event in events(info) if isinstance(event, Notice)]
        assert f"since step {bad[0]}:" in notice.text
        assert "left out" in notice.text
        assert all(map(math.isfinite, curve(info, "validation/loss")[1]))
    assert largest_difference(last_checkpoint(alone), last_checkpoint(together)) < 1e-6


FROM_STEP_FIVE = """
import torch

def model():
    return torch.nn.Linear(4, 1)

def datasets():
    return ((torch.ones(32, 4), torch.ones(32, 1)),) * 2

steps = 0

def loss(outputs, targets):
    global steps
    steps += torch.is_grad_enabled()
    return ((outputs - targets) ** 2).mean() * (float("nan") if steps >= 5 else 1.0)
"""


def test_a_run_that_finishes_without_a_finite_loss_says_since_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "fives.py"
    recipe.write_text(FROM_STEP_FIVE)
    info = train(spec(str(recipe), "torch/single", 1, epochs=2, batch_size=8))
    said = "All 2 epochs are done. The loss is not a finite number since step 5."
    assert (info.state, info.reason) == (RunState.FINISHED, said)
    assert state_text(info) == sentence("finished-loss-is-nan-or-infinite")
    assert main(["show", info.id]) == 0
    assert said in capsys.readouterr().out
    assert main(["show", info.id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == said
