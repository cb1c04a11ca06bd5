"""The way to a supervisor is lost: its socket and the file with its address are deleted."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from pathlib import Path

import pytest

from engine import client
from engine.cli.commands import active_run
from engine.client import CommandFailed, RunInfo
from engine.interface.local_engine import LocalEngine
from engine.messages.channel import CONTROL_FILE
from engine.messages.commands import SaveCheckpoint
from engine.messages.events import CheckpointSaved, Notice
from engine.runs.run_state import RunState
from tests.support.runs import (
    POLL_SECONDS,
    TIMEOUT_SECONDS,
    events,
    is_training,
    spec,
    wait_for,
    wait_for_event,
    wait_until_gone,
)
from tests.support.sentences import sentence

ENGINE = LocalEngine()

pytestmark = pytest.mark.usefixtures("processes")


def lose_channel(info: RunInfo) -> None:
    """As a program does that deletes old files from the folder for temporary files."""
    control = info.folder / CONTROL_FILE
    address = json.loads(control.read_text())["address"]
    shutil.rmtree(Path(address).parent)
    control.unlink()


def send_until_accepted(run_id: str) -> int:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        with contextlib.suppress(CommandFailed):
            return client.send(run_id, SaveCheckpoint())
        assert time.monotonic() < deadline
        threading.Event().wait(POLL_SECONDS)


def test_a_lost_channel_is_made_again_and_a_stop_works_in_between(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    lose_channel(info)
    lost = time.monotonic()
    wait_for_event(run_id, CheckpointSaved, send_until_accepted(run_id))
    print(f"a checkpoint by command {time.monotonic() - lost:.2f} s after the loss")

    def lost_again(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(client, "connect", lost_again)  # the supervisor may be quicker
    active_run.stop(ENGINE, run_id, now=False)
    said = capsys.readouterr()
    assert sentence("was-asked-by-signal-to-save") in said.err
    assert sentence("run-is-stopped-stopped-after-step", run_id=run_id) in said.out
    ended = client.get_run(run_id)
    assert (ended.state, "with a checkpoint saved" in ended.reason) == (RunState.STOPPED, True)
    assert any("got SIGTERM" in each.text for each in events(ended) if isinstance(each, Notice))
    wait_until_gone(ended)
