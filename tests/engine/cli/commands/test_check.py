"""`check`: one batch is tried in workers, what is found is said, and nothing is stored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.system import paths
from main import main
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

RECIPE = """
import time
import torch
from torch import nn

def model(width: int = 3):
    return nn.Sequential(nn.Linear(4, width), nn.Linear(width, 1))

def datasets():
    # in datasets
    return ((torch.ones(64, 4), torch.ones(64, 1)),) * 2

validated = 0

def loss(outputs, targets):
    # in the loss
    global validated
    validated += not torch.is_grad_enabled()
    assert validated < 2, "the second batch of the validation"
    return ((outputs - targets) ** 2).mean()
"""


def found(
    recipe: Path, capsys: pytest.CaptureFixture[str], *arguments: str, code: int
) -> dict[str, Any]:
    environment = dict(os.environ)
    options = [] if "--devices" in arguments else ["--devices", "cpu:0"]
    assert main(["check", str(recipe), *options, *arguments, "--json"]) == code
    assert dict(os.environ) == environment
    assert paths.run_ids() == []
    return dict(json.loads(capsys.readouterr().out))


def test_one_batch_is_trained_and_one_is_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    said = found(recipe, capsys, "--batch-size", "16", "--set", "width=5", code=0)
    assert (said["ok"], said["problem"], said["where"]) == (True, "", "")
    assert said["functions"] == ["model", "datasets", "loss"]
    assert (said["settings"], said["parameters"]) == ({"width": 5}, 5 * 5 + 6)
    assert (said["steps_per_epoch"], said["metrics"]) == (4, ["validation/loss"])
    assert said["loss"] > 0
    assert main(["check", str(recipe), "--devices", "cpu:0", "--batch-size", "16"]) == 0
    text = capsys.readouterr().out
    assert "a PyTorch recipe with model(), datasets(), loss()." in text
    assert sentence("epoch-steps-of-samples") in text
    assert sentence("one-batch-was-trained") in text


def test_what_is_wrong_is_said_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE.replace("# in the loss", "raise ValueError('no\\nLook here.')"))
    said = found(recipe, capsys, code=1)
    line = recipe.read_text().splitlines().index("    raise ValueError('no\\nLook here.')") + 1
    assert said["where"] == f"{recipe}:{line}"
    assert "ValueError: no" in said["problem"]
    batch = "In batch 1 of the epoch: [0] has the shape 64 × 4, [1] has the shape 64 × 1."
    assert said["details"].splitlines() == ["Look here.", batch]
    assert main(["check", str(recipe), "--devices", "cpu:0"]) == 1
    assert f"  Look here.\n  {batch}\n  at {recipe}:{line}\n" in capsys.readouterr().err


def test_what_does_not_end_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE.replace("# in datasets", "time.sleep(1000)"))
    said = found(recipe, capsys, "--seconds", "2", code=1)
    assert sentence("not-done-with-one-batch-within") in said["problem"]


def test_what_cannot_be_started_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    refusal = found(recipe, capsys, "--set", "depth=3", code=2)
    assert refusal["problems"][0]["field"] == "settings.depth"
    assert refusal["state"] == "refused"
    recipe.write_text("import torch\nprint('a script')")
    assert "script" in found(recipe, capsys, code=2)["problems"][0]["text"]
