"""Two windows and the command line on one run: all are up to date, and all can command it."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pytestqt.qtbot import QtBot

from engine import client
from engine.client import CannotStart
from engine.messages.commands import Stop
from engine.messages.events import AttemptStarted, CheckpointSaved, CommandReceived, RunEnded
from engine.processes.process import PROJECT
from engine.runs.store.store_reader import StoredEvent
from engine.runs.store.stored_points import StoredPoints
from gui.bridge.background import Background
from gui.bridge.engine_client import EngineClient
from gui.bridge.machines.machines import Machines
from gui.bridge.store_reader import StoreReader
from tests.support.runs import events, is_training, spec, wait_for, wait_for_end

pytestmark = pytest.mark.usefixtures("processes")


class Window:
    """The parts of a window that follow a run: its reader, its commands, and what was read."""

    def __init__(self, run_id: str) -> None:
        self.background = Background()
        self.controller = EngineClient(self.background)
        self.reader = StoreReader(Machines())
        self.events: list[StoredEvent] = []
        self.losses: list[float] = []
        self.state = ""
        self.reader.events.connect(self.events.extend)
        self.reader.points.connect(self._points)
        self.reader.curve.connect(self._curve)
        self.reader.status_changed.connect(lambda info: setattr(self, "state", str(info.state)))
        self.controller.watch(run_id)
        self.reader.watch(run_id)

    def has_event(self, kind: type) -> bool:
        return any(isinstance(stored.event, kind) for stored in self.events)

    def close(self) -> None:
        self.reader.watch(None)
        self.background.finish()

    def _points(self, series: str, points: StoredPoints) -> None:
        if series == "train/loss":
            self.losses.extend(points.value)

    def _curve(self, series: str, points: StoredPoints) -> None:
        if series == "train/loss":
            self.losses = list(points.value)


def command_line(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "main.py", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_two_windows_and_a_command_line_on_one_run(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command line delays both windows for seconds: then they would read blocks, not points.
    monkeypatch.setattr("engine.runs.store.store_follower.MOST_AT_ONCE", 10_000_000)
    run_id = client.start(spec("endless_counter", "torch/single", epochs=1_000_000))
    windows = [Window(run_id), Window(run_id)]
    one, other = windows
    try:
        qtbot.waitUntil(lambda: all(len(each.losses) > 20 for each in windows))
        one.controller.pause()
        qtbot.waitUntil(lambda: all(each.state == "paused" for each in windows))
        other.controller.save_checkpoint()
        qtbot.waitUntil(lambda: all(each.has_event(CheckpointSaved) for each in windows))
        result = command_line("resume", run_id)
        assert result.returncode == 0, result.stderr
        qtbot.waitUntil(lambda: all(each.state == "running" for each in windows))

        # Another start is refused.
        with pytest.raises(CannotStart, match=f"Run {run_id} is running: stop it first"):
            client.resume(run_id)

        one.controller.stop()
        other.controller.stop()
        qtbot.waitUntil(lambda: all(each.has_event(RunEnded) for each in windows))
        qtbot.waitUntil(lambda: all(each.state == "stopped" for each in windows))
        assert one.events == other.events
        assert one.losses == other.losses
        assert len(one.losses) == client.get_run(run_id).status.step
    finally:
        for each in windows:
            each.close()
    found = events(client.get_run(run_id))
    asked = [event.command for event in found if isinstance(event, CommandReceived)]
    assert asked[:3] == ["Pause", "SaveCheckpoint", "Resume"]
    assert set(asked[3:]) == {"Stop"}

    _resume_from_three_places_at_once(run_id)


def _resume_from_three_places_at_once(run_id: str) -> None:
    """Exactly one call resumes it; the others are refused."""

    def resume(_: int) -> str:
        try:
            client.resume(run_id)
        except CannotStart as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(3) as pool:
        answers = sorted(pool.map(resume, range(3)))
    assert answers[0] == ""
    for refusal in answers[1:]:
        assert re.search("is active already|: stop it first|by another window", refusal), answers
    wait_for(run_id, is_training)
    client.send(run_id, Stop(now=True))
    info = wait_for_end(run_id)
    assert [type(event) for event in events(info)].count(AttemptStarted) == 2
