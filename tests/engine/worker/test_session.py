"""How a worker imports its recipe and finds its supervisor."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from engine.messages.channel import CONNECTING, LOADING, Alive, Server
from engine.processes.process import ON_LINUX
from engine.spec.metric_direction import lower_is_better
from engine.spec.recipe_file import RecipeInfo
from engine.training.errors import TrainingFailed
from engine.worker import environment, session
from engine.worker.session import WorkerSession, check_settings
from tests.support.sentences import sentence

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""


def test_the_garbage_collector_ignores_imported_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in ("PYTHONPATH", environment.RECIPE, environment.COPY, environment.RUN_FOLDER):
        monkeypatch.setenv(name, "")
    monkeypatch.delitem(sys.modules, "recipe", raising=False)
    recipe = tmp_path / "recipe.py"
    recipe.write_text("STAYS = [[] for _ in range(100)]\n")
    info = RecipeInfo(name="recipe", path=str(recipe), builtin=False)
    loading: Any = SimpleNamespace(recipe=info, folder=tmp_path, spec=SimpleNamespace(settings={}))
    try:
        module = WorkerSession.load_recipe(loading)
        assert not any(each is module.STAYS for each in gc.get_objects())
    finally:
        gc.unfreeze()
        del sys.modules["recipe"]


def test_a_setting_that_a_decorator_hides_is_refused_and_never_ignored() -> None:
    def hidden(*values: object, **named: object) -> None: ...
    def model(width: int = 8) -> None: ...

    class Net:
        def __init__(self, depth: int = 2) -> None: ...

    recipe: Any = SimpleNamespace(model=model, datasets=partial(Net, depth=3), loss=print)
    check_settings({"width": 4, "depth": 2}, recipe)
    recipe.model = hidden
    with pytest.raises(TrainingFailed, match=sentence("setting-reaches-no-function").pattern):
        check_settings({"width": 4, "depth": 2}, recipe)


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


@pytest.mark.parametrize("saves", [True, False])
def test_a_worker_without_a_supervisor_is_not_ended_while_its_checkpoint_gets_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: bool
) -> None:
    ended: list[int] = []
    looks = 0
    waits: Any = SimpleNamespace(
        folder=tmp_path,
        spec=SimpleNamespace(orphan_seconds=0.1),
        alive=Alive("checkpoint", 0),
        mailbox=SimpleNamespace(post=lambda command: None),
        _sender=SimpleNamespace(orphaned=lambda: None),
        part_sender=None,
        _orphaned=threading.Event(),
    )
    waits._save_progress = partial(WorkerSession._save_progress, waits)

    def wait(seconds: float) -> bool:
        nonlocal looks
        looks += 1
        waits.alive = Alive("checkpoint" if saves else "training", looks)
        time.sleep(seconds)
        return looks >= 40  # it is done, and leaves by itself

    waits._leaving = SimpleNamespace(wait=wait)
    monkeypatch.setattr(session, "leave", ended.append)
    WorkerSession._save_and_leave(waits)
    assert (looks >= 40, bool(ended)) == (saves, not saves)


def test_a_checkpoint_that_is_read_in_one_call_shows_that_it_gets_on(tmp_path: Path) -> None:
    loads: Any = SimpleNamespace(alive=Alive(), _loaded=0)
    assert WorkerSession._sign_of_life(loads) == Alive()
    WorkerSession.load(loads, 0)
    before = WorkerSession._sign_of_life(loads)
    assert before.doing == LOADING
    WorkerSession.load(loads, 5)
    assert WorkerSession._sign_of_life(loads).place - before.place >= 5
    if ON_LINUX:
        before = WorkerSession._sign_of_life(loads)
        file = tmp_path / "state"
        file.write_bytes(bytes(3 * 2**20))
        file.read_bytes()
        assert WorkerSession._sign_of_life(loads).place > before.place


def test_a_direction_is_that_of_the_metric_in_every_validation_set() -> None:
    directions = {"novelty": "min", "hard_score": "min", "score": "max"}
    session: Any = SimpleNamespace(metric_directions=directions)
    WorkerSession.add_validation_sets(session, ["hard_", "far_"])
    assert lower_is_better("validation/hard_novelty", session.metric_directions)
    assert lower_is_better("validation/far_novelty", session.metric_directions)
    assert lower_is_better("validation/hard_score", session.metric_directions)
    assert not lower_is_better("validation/far_score", session.metric_directions)


def test_ranks_say_while_they_connect(tmp_path: Path) -> None:
    waits: Any = SimpleNamespace(alive=Alive())
    with WorkerSession.connecting(waits):
        assert waits.alive.doing == CONNECTING
    assert waits.alive == Alive()
