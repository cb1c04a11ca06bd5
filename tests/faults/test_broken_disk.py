"""A disk that becomes read-only or fails, and a store that another program locks: the state of the
run, which the disk cannot tell, is told by its supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import client
from engine.cli.commands.runs import active_run
from engine.cli.output import Unanswered
from engine.client import CommandFailed, RunInfo
from engine.interface.local_engine import LocalEngine
from engine.messages.commands import Pause, Resume
from engine.runs.run_info import SUPERVISOR
from engine.runs.run_state import RunState
from tests.support.broken_disk import BrokenDisk, ext4_disk
from tests.support.runs import is_training, spec, wait_for, wait_until_gone
from tests.support.sentences import sentence

ENGINE = LocalEngine()

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def disk(traindeck_home: Path, tmp_path: Path) -> Iterator[BrokenDisk]:
    with ext4_disk(traindeck_home, tmp_path / "image") as made:
        yield made


def is_told_to_be_paused(info: RunInfo) -> bool:
    return info.state is RunState.PAUSED and not info.is_recorded


def test_a_run_on_a_disk_that_became_read_only_tells_its_state_and_its_end(
    disk: BrokenDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    wait_for(run_id, is_training)
    disk.become_read_only()
    info = wait_for(run_id, is_told_to_be_paused)
    assert info.status.troubles.keys() == {"disk", SUPERVISOR}
    assert "read-only file system" in info.status.troubles[SUPERVISOR]
    with pytest.raises(CommandFailed, match="paused already"):
        client.send(run_id, Pause())
    with pytest.raises(CommandFailed, match="cannot be written yet"):
        client.send(run_id, Resume())
    with pytest.raises(Unanswered, match=sentence("could-not-be-saved-read-only-file").pattern):
        active_run.checkpoint(ENGINE, run_id)
    active_run.stop(ENGINE, run_id, now=False)
    said = capsys.readouterr().out
    assert sentence("run-is-stopped-after-that-step", run_id=run_id, step=info.status.step) in said
    assert sentence("this-end-could-not-be-recorded") in said
    wait_until_gone(info)
    ended = client.get_run(run_id)
    assert (ended.state, ended.is_recorded) == (RunState.INTERRUPTED, True)
    assert sentence("disk-did-not-take-its-end") in ended.reason
