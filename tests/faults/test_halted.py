"""A supervisor is halted (`kill -STOP`): its run answers nothing, and everything else goes on."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine import client
from engine.cli.output import Unanswered
from engine.cli.watch import wait_for_event
from engine.client import CommandFailed, RunInfo
from engine.interface.local_engine import LocalEngine
from engine.messages.channel import CONTROL_FILE
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved
from engine.processes.process import PROJECT, is_halted
from gui.app import AppController
from gui.style.theme import ThemeController
from tests.support.runs import is_training, spec, wait_for, wait_for_end
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def open_app(qapp: QApplication) -> Iterator[Callable[[], AppController]]:
    apps: list[AppController] = []

    def open() -> AppController:
        apps.append(AppController(ThemeController(qapp)))
        apps[-1].window.show()
        return apps[-1]

    yield open
    for app in apps:
        app.window.close()
        app.shut_down()
        app.window.deleteLater()


@pytest.fixture
def halted() -> Iterator[RunInfo]:
    """A run that trains, and whose supervisor is halted until the end of the test."""
    run_id = client.start(spec("endless_counter", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    supervisor = psutil.Process(info.status.supervisor_pid)
    supervisor.suspend()
    while not is_halted(supervisor.pid):
        os.sched_yield()
    try:
        yield info
    finally:
        supervisor.resume()
        client.send(run_id, Stop(now=True))
        wait_for_end(run_id)


def test_a_halted_run_does_not_take_the_window_along(
    halted: RunInfo, open_app: Callable[[], AppController], qtbot: QtBot
) -> None:
    app = open_app()
    said: list[str] = []
    app.engine_client.failed.connect(said.append)
    app.open(halted.id)
    qtbot.waitUntil(app.controls.stop.isEnabled)
    for _ in range(3):
        app.controls.checkpoint.click()
        app.controls.stop.click()

    begun: list[str] = []
    app.engine_client.started.connect(begun.append)
    app.engine_client.start(spec("probe_torch", "torch/single", epochs=1))
    qtbot.waitUntil(lambda: bool(begun))
    with qtbot.waitSignal(app.engine_client.runs_listed) as listed:
        app.engine_client.refresh_runs()
    assert {info.id for info in listed.args[0]} == {halted.id, begun[0]}

    pid = halted.status.supervisor_pid
    qtbot.waitUntil(lambda: bool(said))
    assert said[0] == sentence("run-does-not-answer-supervisor-process", run=halted.id, pid=pid)
    app.open(halted.id)
    headline = app.controls.headline.state
    qtbot.waitUntil(lambda: "does not answer, halted for" in headline.text())
    assert f"kill -CONT {pid}" in headline.toolTip()
    wait_for_end(begun[0])


def test_a_window_with_commands_that_wait_closes_at_once(
    halted: RunInfo,
    open_app: Callable[[], AppController],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the supervisor was halted after it was asked whether it is."""
    monkeypatch.setattr(client, "is_halted", lambda pid: False)
    monkeypatch.setattr(client, "LONGEST_ANSWER", 120.0)
    app = open_app()
    app.open(halted.id)
    qtbot.waitUntil(app.controls.stop.isEnabled)
    for _ in range(4):
        app.controls.checkpoint.click()
        app.controls.stop.click()
    began = time.monotonic()
    app.window.close()
    app.shut_down()
    seconds = time.monotonic() - began
    print(f"the window has closed after {seconds:.2f} s")
    assert seconds < client.LONGEST_ANSWER / 2, "no command was waited for"


def test_a_command_line_does_not_wait_for_a_halted_run(halted: RunInfo) -> None:
    for command in ("stop", "pause"):
        began = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "main.py", command, halted.id],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        print(f"{command} has ended after {time.monotonic() - began:.2f} s")
        assert ended.returncode == 2
        assert f"kill -CONT {halted.status.supervisor_pid}" in ended.stderr


def test_a_run_that_is_halted_after_it_took_a_command_is_named(halted: RunInfo) -> None:
    with pytest.raises(Unanswered, match=f"kill -CONT {halted.status.supervisor_pid}"):
        wait_for_event(LocalEngine(), halted.id, CheckpointSaved, after=-1)


@pytest.mark.parametrize("fills_its_queue", [False, True])
def test_every_wait_for_a_supervisor_has_a_limit(
    halted: RunInfo, fills_its_queue: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handshake, and the wait for room in the queue of its listener."""
    with contextlib.ExitStack() as callers, monkeypatch.context() as patch:
        patch.setattr(client, "is_halted", lambda pid: False)
        patch.setattr(client, "LONGEST_ANSWER", 0.2)
        if fills_its_queue:
            address = json.loads((halted.folder / CONTROL_FILE).read_text())["address"]
            with contextlib.suppress(BlockingIOError):
                while True:
                    caller = callers.enter_context(socket.socket(socket.AF_UNIX))
                    caller.setblocking(False)
                    caller.connect(address)
        with pytest.raises(CommandFailed, match="did not answer within"):
            client.send(halted.id, SaveCheckpoint())
