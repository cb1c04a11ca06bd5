"""A recipe is tried on one batch, in a process of its own that ends when it is not wanted."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import pytest

from engine.client import CannotStart
from engine.interface.local_engine import LocalEngine
from engine.interface.recipes import try_recipe
from engine.planning import own_data_folder
from engine.planning.results import CheckResult
from engine.spec import catalog
from engine.spec.run_spec import RunSpec

ENGINE = LocalEngine()

pytestmark = pytest.mark.usefixtures("processes", "traindeck_home")

NEVER = """import pathlib, time, torch

def model():
    pathlib.Path({mark!r}).touch()
    time.sleep(3600)

def datasets(): ...
"""


def test_a_recipe_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    spec = RunSpec(recipe=str(tmp_path / "no.py"), strategy="torch/single", devices=("cpu:0",))
    with pytest.raises(CannotStart, match=r"no\.py"):
        try_recipe(ENGINE, spec, threading.Event())


def test_what_is_refused_is_the_problem() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:99",))
    with pytest.raises(CannotStart, match="cpu:99"):
        try_recipe(ENGINE, spec, threading.Event())


def test_all_that_the_command_prints_is_known() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), batch_size=64)
    found = try_recipe(ENGINE, spec, threading.Event())
    assert (found.ok, found.problem, found.recipe) == (True, "", catalog.recipe("digits").path)
    assert (found.framework, found.strategy, found.devices) == (
        "torch",
        spec.strategy,
        spec.devices,
    )
    assert found.parameters > 0
    assert found.steps_per_epoch > 0
    assert "validation/loss" in found.metrics
    assert "model" in found.functions
    assert "width" in found.settings


def test_a_check_that_is_cancelled_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    file, mark, cancelled = tmp_path / "mine.py", tmp_path / "begun", threading.Event()
    file.write_text(NEVER.format(mark=str(mark)))
    found: list[CheckResult] = []
    spec = RunSpec(recipe=str(file), strategy="torch/single", devices=("cpu:0",))
    trying = threading.Thread(target=lambda: found.append(try_recipe(ENGINE, spec, cancelled)))
    trying.start()
    latest = time.monotonic() + 120.0
    while not mark.exists() and trying.is_alive() and time.monotonic() < latest:
        trying.join(0.1)
    assert mark.exists()
    cancelled.set()
    trying.join(120.0)
    assert not trying.is_alive()
    assert not found[0].ok
    assert not list(tmp_path.glob(f"{own_data_folder.PREFIX}*"))
