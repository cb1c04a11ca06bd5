"""Recipes with the real Lightning and the real transformers train as these libraries do alone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from engine.processes.process import PROJECT
from engine.runs.store.store_reader import RunReader

PYTHON = os.environ.get("TRAINDECK_LIBRARIES", "")
RECIPES = PROJECT / "tests" / "recipes" / "libraries"

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.nightly,
    pytest.mark.skipif(
        not PYTHON,
        reason="TRAINDECK_LIBRARIES names no Python with Traindeck, lightning and transformers",
    ),
]


@pytest.mark.parametrize("recipe", ["lit_regression", "hf_counting"])
@pytest.mark.parametrize(
    ("strategy", "devices"), [("single", "cpu:0"), ("ddp", "cpu:0,cpu:1"), ("fsdp", "cpu:0,cpu:1")]
)
def test_losses_are_those_of_the_library(
    recipe: str, strategy: str, devices: str, tmp_path: Path
) -> None:
    file = RECIPES / f"{recipe}.py"
    alone = json.loads(_run(str(file), str(tmp_path)))
    options = ["--strategy", strategy, "--devices", devices, "--json", "--cold-start"]
    result = json.loads(_run("main.py", "train", "--recipe", str(file), *options))
    assert result["state"] == "finished", result
    with RunReader(Path(result["run_dir"])) as reader:
        for series, expected in alone.items():
            values = reader.history(series).value.tolist()
            if isinstance(expected, float):
                assert values[-1] == pytest.approx(expected, rel=1e-5)
            else:
                assert values == pytest.approx(expected, rel=1e-5)


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [PYTHON, *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.strip().splitlines()[-1]
