"""`memory` and `batch-size`, with real workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.system import paths
from main import main

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.nightly]

RECIPE = """
import torch
from torch import nn

DEFAULTS = {"batch_size": 400, "learning_rate": 0.1}

def model():
    return nn.Sequential(nn.Linear(16, 65536), nn.Linear(65536, 1))

def datasets():
    return (torch.ones(2000, 16), torch.ones(2000, 1)), None

def loss(outputs, targets):
    return ((outputs - targets) ** 2).mean()
"""
ACTIVATIONS = 65536 * 4
"""Bytes that each sample takes at least."""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "wide.py"
    path.write_text(RECIPE)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = capsys.readouterr().out.splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def test_memory_is_predicted_by_what_holds_it(
    recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["memory", "--recipe", recipe, "--devices", "cpu:0", "--json"]
    assert main([*arguments, "--memory-limit", "8000"]) == 0
    found = answer(capsys)
    (device,) = found["devices"]
    weights = (16 + 1 + 1) * 65536 * 4 + 4
    assert device["weights"] == weights
    assert device["gradients"] == weights
    assert device["activations"] >= 400 * ACTIVATIONS
    assert device["available"] == 8000 * 2**20
    parts = ("weights", "gradients", "optimizer", "activations", "other")
    assert sum(device[part] for part in parts) == pytest.approx(device["total"])
    assert found["fits"] is True
    assert found["text"].startswith("Fits: about ")
    assert paths.run_ids() == []


def test_an_allocation_over_the_limit_fails_and_the_largest_batch_is_found(
    recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["batch-size", "--recipe", recipe, "--devices", "cpu:0", "--json"]
    assert main([*arguments, "--batch-size", "1600", "--memory-limit", "700"]) == 0
    found = answer(capsys)
    assert 0 < found["largest"] < 700 * 2**20 // ACTIVATIONS
    assert found["accumulation"] > 1
    assert found["change"]["fields"] == {"accumulation": found["accumulation"]}
    assert all(each["memory"] <= 700 * 2**20 for each in found["tried"] if each["fits"])
    assert paths.run_ids() == []


def test_a_recipe_that_fails_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(RECIPE.replace("return (torch.ones(2000", "return (torch.twos(2000"))
    assert main(["memory", "--recipe", str(path), "--devices", "cpu:0", "--json"]) == 1
    found = answer(capsys)
    assert "twos" in found["problem"]
    assert f"{path}:11" in found["problem"]
    assert found["devices"] == []
