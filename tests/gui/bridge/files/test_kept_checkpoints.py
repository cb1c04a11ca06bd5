"""Which checkpoints are on disk: read at first, after each new one, for the watched run only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved, Paused
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.runs.store.store_reader import StoredEvent
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.files.kept_checkpoints import KeptCheckpoints

SAVED = [StoredEvent(1, 0.0, CheckpointSaved("step-2", 2, 1, 9, 0.1))]


@pytest.fixture
def kept(traindeck_home: Path) -> Iterator[KeptCheckpoints]:
    background = Background()
    yield KeptCheckpoints(background)
    background.finish()


def save(run_id: str, step: int, kinds: tuple[str, ...] = ("steps",)) -> Path:
    run_folder = paths.run_folder(run_id)
    run_folder.mkdir(parents=True, exist_ok=True)
    checkpoint_files.begin(run_folder, step)
    return checkpoint_files.publish(
        run_folder,
        Position(step=step),
        strategy="torch/single",
        replicas=1,
        batch_size=1,
        parameters=1,
        kinds=kinds,
    ).folder


def test_the_kept_and_the_best_are_told_and_again_after_a_new_one(
    kept: KeptCheckpoints, qtbot: QtBot
) -> None:
    told: list[object] = []
    kept.changed.connect(told.append)
    save("1", 1, ("best",))
    kept.watch("1")
    qtbot.waitUntil(lambda: told[-1] == {1: True})
    save("1", 2)
    kept.add_events([StoredEvent(1, 0.0, Paused(2))])
    kept.add_events(SAVED)
    qtbot.waitUntil(lambda: told[-1] == {1: True, 2: False})
    checkpoint_files.remove(checkpoint_files.final_folder(paths.run_folder("1"), 1))
    qtbot.waitUntil(lambda: told[-1] == {2: False})  # the retention deletes after the event


def test_nothing_of_another_run_is_told(kept: KeptCheckpoints, qtbot: QtBot) -> None:
    told: list[object] = []
    kept.changed.connect(told.append)
    save("1", 1)
    save("2", 7)
    kept.watch("1")
    kept.watch("2")
    qtbot.waitUntil(lambda: told[-1] == {7: False})
    assert {1: False} not in told
    kept.watch(None)
    assert told[-1] is None


def test_of_a_run_that_was_deleted_nothing_is_known(kept: KeptCheckpoints, qtbot: QtBot) -> None:
    told: list[object] = []
    kept.changed.connect(told.append)
    kept.watch("7")
    qtbot.waitUntil(lambda: told == [None, None])
