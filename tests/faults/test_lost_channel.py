"""The way to a supervisor is lost: its socket and the file with its address are deleted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine import client
from engine.cli.commands.runs import active_run
from engine.client import CommandFailed, RunInfo
from engine.interface.local_engine import LocalEngine
from engine.messages.channel import CONTROL_FILE
from engine.messages.commands import SaveCheckpoint
from engine.messages.events import Notice
from engine.runs.run_state import RunState
from tests.support.runs import events, is_training, spec, wait_for, wait_until_gone
from tests.support.sentences import sentence

ENGINE = LocalEngine()

pytestmark = pytest.mark.usefixtures("processes")


def lose_channel(info: RunInfo) -> None:
    """As a program does that deletes old files from the folder for temporary files."""
    control = info.folder / CONTROL_FILE
    address = json.loads(control.read_text())["address"]
    shutil.rmtree(Path(address).parent)
    control.unlink()


def test_a_run_whose_channel_is_lost_takes_no_commands_and_a_stop_saves_and_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    lose_channel(info)
    with pytest.raises(CommandFailed, match=sentence("way-to-its-supervisor-is-lost").pattern):
        client.send(run_id, SaveCheckpoint())
    active_run.stop(ENGINE, run_id, now=False)
    said = capsys.readouterr()
    assert sentence("was-asked-by-signal-to-save") in said.err
    assert sentence("run-is-stopped-stopped-after-step", run_id=run_id) in said.out
    ended = client.get_run(run_id)
    assert (ended.state, "with a checkpoint saved" in ended.reason) == (RunState.STOPPED, True)
    assert any("got SIGTERM" in each.text for each in events(ended) if isinstance(each, Notice))
    wait_until_gone(ended)
