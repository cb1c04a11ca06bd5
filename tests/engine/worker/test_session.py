"""How a worker imports its recipe and finds its supervisor."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from engine.messages.channel import Server
from engine.processes.process import ON_LINUX
from engine.spec.recipe_file import RecipeInfo
from engine.worker import environment, session
from engine.worker.session import WorkerSession

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""


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
    loading: Any = SimpleNamespace(recipe=info)
    assert gc.get_freeze_count() == 0
    try:
        module = WorkerSession.load_recipe(loading)
        assert not any(each is module.STAYS for each in gc.get_objects())
    finally:
        gc.unfreeze()
        del sys.modules["recipe"]


def test_a_worker_finds_a_supervisor_that_makes_its_channel_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The channel was deleted while the worker started."""
    monkeypatch.setenv(environment.SUPERVISOR, str(os.getpid()))
    found: SimpleQueue[int] = SimpleQueue()
    starting = threading.Thread(target=lambda: session._connect(tmp_path, 3).close())
    starting.start()
    starting.join(0.2)
    assert starting.is_alive()
    with closing(Server(tmp_path, lambda hello, channel: found.put(hello.rank))):
        assert found.get(timeout=SECONDS) == 3
        starting.join(SECONDS)


@pytest.mark.skipif(not ON_LINUX, reason="elsewhere the pid alone says nothing")
def test_a_worker_does_not_wait_for_a_supervisor_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CONNECT_SECONDS", SECONDS)
    monkeypatch.setenv(environment.SUPERVISOR, str(2**22 + 1))  # above the largest pid
    begun = time.monotonic()
    with pytest.raises(ConnectionError):
        session._connect(tmp_path, 0)
    assert time.monotonic() - begun < SECONDS / 2


def test_a_worker_gives_up_after_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_SECONDS", 0.2)
    monkeypatch.setenv(environment.SUPERVISOR, str(os.getpid()))
    with pytest.raises(ConnectionError):
        session._connect(tmp_path, 0)
