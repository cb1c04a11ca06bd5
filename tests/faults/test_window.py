"""The window's process is closed or killed in mid-run: the run does not notice, nor the next one
who looks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from engine import client
from engine.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.events import CacheEmptied, CheckpointSaved, Paused, Resumed
from engine.process import is_alive
from engine.run_state import RunState
from tests.support.runs import (
    curve,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)

ROOT = Path(__file__).parent.parent.parent

START_IN_WINDOW = """
import os, sys
from PySide6.QtCore import QTimer
from engine import client
from engine.run_state import RunState
from gui import app as gui
from gui.theme import ThemeController
app = gui.application(["traindeck"])
deck = gui.Deck(ThemeController(app))
app.aboutToQuit.connect(deck.shut_down)
deck.window.show()
deck.form.load(client.RunSpec(**{spec!r}))
deck.form.start()
app.exec()
"""
"""A window whose owner has filled in the form and clicked Start."""


@contextmanager
def window(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A window in a process of its own."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def watches(process: subprocess.Popen[bytes], run_id: str) -> bool:
    """Whether the window has the run's store open."""
    assert process.poll() is None, process.communicate()
    files = {Path(file.path).parent.name for file in psutil.Process(process.pid).open_files()}
    return run_id in files


def test_a_window_that_is_killed_or_closed_takes_nothing_along() -> None:
    wanted = spec("probe_torch", "torch/single", epochs=100_000)
    fields = {"recipe": wanted.recipe, "strategy": wanted.strategy, "devices": wanted.devices}
    code = START_IN_WINDOW.format(spec=fields | {"epochs": wanted.epochs, "batch_size": 32})
    with window("-c", code) as first:
        while not client.runs():
            assert first.poll() is None, first.communicate()
        run_id = client.runs()[0].id
        info = wait_for(run_id, is_training)
        wait_for(run_id, lambda _: watches(first, run_id))
        first.kill()
        first.wait()
        killed = time.monotonic()
    before = client.look(run_id).status.step
    wait_for(run_id, lambda now: now.status.step > before)

    with window("main.py") as second:
        wait_for(run_id, lambda _: watches(second, run_id))
        print(f"another window shows it {time.monotonic() - killed:.2f} s after the first died")
        second.send_signal(signal.SIGTERM)  # as a logout or an update of the program does
        second.wait(20)
    before = client.look(run_id).status.step
    wait_for(run_id, lambda now: now.status.step > before)

    for command, answer in (
        (SaveCheckpoint(), CheckpointSaved),
        (EmptyCache(), CacheEmptied),
        (Pause(), Paused),
        (Resume(), Resumed),
    ):
        wait_for_event(run_id, answer, client.send(run_id, command))
    now = client.look(run_id).status
    assert is_alive(now.supervisor_pid, now.supervisor_created)
    assert (now.attempt, now.worker_pids) == (1, info.status.worker_pids), "the same processes"
    client.send(run_id, Stop())
    ended = wait_for_end(run_id)
    assert ended.state is RunState.STOPPED
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))
    wait_until_gone(ended)
