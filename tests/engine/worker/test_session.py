"""How a worker imports its recipe."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.spec.recipe_file import RecipeInfo
from engine.worker import environment
from engine.worker.session import WorkerSession


def test_the_garbage_collector_ignores_imported_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in (environment.RECIPE, environment.COPY):
        monkeypatch.setenv(name, "")
    monkeypatch.delitem(sys.modules, "recipe", raising=False)
    recipe = tmp_path / "recipe.py"
    recipe.write_text("STAYS = [[] for _ in range(100)]\n")
    info = RecipeInfo(name="recipe", path=str(recipe), builtin=False)
    session: Any = SimpleNamespace(recipe=info)
    assert gc.get_freeze_count() == 0
    try:
        module = WorkerSession.load_recipe(session)
        assert not any(each is module.STAYS for each in gc.get_objects())
    finally:
        gc.unfreeze()
        del sys.modules["recipe"]
