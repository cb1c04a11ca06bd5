"""Snapshots joined with the active runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine import client
from engine.messages.events import RunEnded, WorkerStarted
from engine.telemetry.snapshot import Snapshot
from gui.bridge.background import Background
from gui.bridge.memory_owners import MemoryOwners
from tests.gui.conftest import Record
from tests.support.device_states import gpu, process, uuid


def here_now() -> Snapshot:
    """GPU 0 with a process that started a second ago."""
    started = time.time() - 1
    return Snapshot(
        time=0.0, devices=(gpu(0, 28.2, processes=(process(10, 28, started=started),)),)
    )


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    made = Background()
    yield made
    made.finish()


def test_a_worker_of_an_active_run_is_told_from_somebody_else(
    background: Background, record: Record, qtbot: QtBot
) -> None:
    here = here_now()
    said: list[Any] = []
    owners = MemoryOwners(background)
    owners.uses.connect(said.append)
    owners.show_snapshot(here)
    assert said[-1][uuid(0)].is_busy
    run = record()
    run.begin()
    run.add(WorkerStarted(0, 10, (uuid(0),)))
    owners.show_runs(client.runs())
    owners.show_runs(client.runs())  # while the first look is under way

    def is_ours() -> bool:
        owners.show_snapshot(here)
        return not said[-1][uuid(0)].is_busy

    qtbot.waitUntil(is_ours)
    assert said[-1][uuid(0)].ours[0].worker.run == client.runs()[0].title
    run.add(RunEnded("stopped", ""))
    owners.show_runs(client.runs())
    owners.show_snapshot(here)
    assert said[-1][uuid(0)].is_busy
