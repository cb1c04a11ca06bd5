"""A real `sshd` behind a link with delay and loss, in a network of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.remote import ssh
from engine.remote.connection import Connection, LinkState
from engine.system.machines import RemoteMachine
from tests.support import slow_link, ssh_server
from tests.support.recorded_runs import RecordedRun
from tests.support.remote_followed import Followed
from tests.support.slow_link import SlowLink
from tests.support.ssh_server import HOST, SshServer

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: None) -> Iterator[SshServer]:
    """A server behind 80 ms there and back, 10 Mbit/s and a loss of 1 %."""
    if why := ssh_server.MISSING or slow_link.missing():
        pytest.skip(why)
    with SlowLink(delay=0.04, rate=10e6, loss=0.01) as link:
        server = SshServer(tmp_path / "ssh", link.far)
        server.prefix = link.prefix
        monkeypatch.setenv(ssh.PROGRAM_VARIABLE, server.ssh)
        server.start()
        yield server
        server.stop()


def test_a_long_run_is_shown_and_followed_through_delay_and_loss(
    far: SshServer, traindeck_home: Path
) -> None:
    run = RecordedRun()
    with closing(run.store):
        run.begin()
        run.add_points("train/loss", range(100_000))
        followed = Followed()
        command = far.command(traindeck_home)
        machine = RemoteMachine(name=HOST, destination=HOST, command=command)
        connection = Connection(machine, followed.take_status)
        connection.start()
        try:
            followed.wait_for_state(LinkState.CONNECTED)
            connection.follow(run.id, ["train/loss"], followed.take)
            followed.wait(lambda: "train/loss" in followed.steps)
            assert followed.steps["train/loss"][-1] == 99_999
            assert len(followed.steps["train/loss"]) < 4000
            for step in range(100_000, 100_020):
                run.add_points("train/loss", [step])
            followed.wait(lambda: followed.steps["train/loss"][-1] == 100_019)
            assert followed.steps["train/loss"][-20:] == list(range(100_000, 100_020))
            followed.wait(lambda: any(each.round_trip for each in followed.statuses))
            measured = [each.round_trip for each in followed.statuses if each.round_trip]
            assert min(measured) >= 0.08
        finally:
            connection.close()
            connection.join(seconds=20.0)
