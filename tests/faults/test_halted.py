"""A supervisor is halted (`kill -STOP`): its run answers nothing, and everything else goes on."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import main
from engine import client
from engine.cli.output import Unanswered
from engine.cli.watch import wait_for_event
from engine.client import CommandFailed, RunInfo, StoppedBySignal
from engine.interface.local_engine import LocalEngine
from engine.messages.channel import CONTROL_FILE
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved
from engine.processes.process import is_halted
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
        with contextlib.suppress(StoppedBySignal):  # it has much to answer: the signal ends it too
            client.send(run_id, Stop(now=True))
        wait_for_end(run_id)


def test_a_halted_run_does_not_take_the_window_along(
    halted: RunInfo,
    open_app: Callable[[], AppController],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The window says what is wrong, goes on with other runs, and closes at once."""
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

    # As if the supervisor was halted after it was asked whether it is.
    monkeypatch.setattr(client, "is_halted", lambda pid: False)
    monkeypatch.setattr(client, "LONGEST_ANSWER", 120.0)
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


def test_no_command_waits_for_a_halted_run(
    halted: RunInfo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the handshake, and the wait for room in the queue of its listener, have a limit."""
    advice = f"kill -CONT {halted.status.supervisor_pid}"
    for command in ("stop", "pause"):
        assert main.main([command, halted.id]) == 2
        assert advice in capsys.readouterr().err
    with pytest.raises(Unanswered, match=advice):
        wait_for_event(LocalEngine(), halted.id, CheckpointSaved, after=-1)

    monkeypatch.setattr(client, "is_halted", lambda pid: False)
    monkeypatch.setattr(client, "LONGEST_ANSWER", 0.2)
    with contextlib.ExitStack() as callers:
        with pytest.raises(CommandFailed, match="did not answer within"):
            client.send(halted.id, SaveCheckpoint())
        address = json.loads((halted.folder / CONTROL_FILE).read_text())["address"]
        with contextlib.suppress(BlockingIOError):
            while True:
                caller = callers.enter_context(socket.socket(socket.AF_UNIX))
                caller.setblocking(False)
                caller.connect(address)
        with pytest.raises(CommandFailed, match="did not answer within"):
            client.send(halted.id, SaveCheckpoint())
