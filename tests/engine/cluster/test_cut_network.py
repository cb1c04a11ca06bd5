"""A machine in a network of its own, whose cable is pulled."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import client
from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved
from engine.runs.run_state import RunState
from tests.support import slow_link
from tests.support.cluster_machine import ClusterMachine, wait_for
from tests.support.runs import is_training, spec, wait_for_end, wait_for_event
from tests.support.runs import wait_for as wait_for_run
from tests.support.sentences import sentence
from tests.support.slow_link import SlowLink

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[cluster]'")
pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.nightly]


def test_a_machine_without_a_network_is_lost_and_comes_back_by_itself_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := slow_link.missing():
        pytest.skip(why)
    with SlowLink(delay=0.0, rate=1e9) as link:
        desk = ClusterMachine(tmp_path, "desk", link.near)
        gpus = ClusterMachine(tmp_path, "gpus", link.far, link.prefix)
        try:
            head = desk.begin().json["head"]
            # Its own address is that of the interface that leads to the head.
            joined = gpus.call(
                *("cluster", "join", head, "--name", "gpus", "--token", desk.token, "--json")
            )
            assert joined.json["ip"] == link.far
            assert desk.sees() == gpus.sees() == {"desk": True, "gpus": True}
            monkeypatch.setenv("TRAINDECK_HOME", str(desk.home))
            both = spec("probe_torch", "torch/ddp", ("cpu:0", "gpus/cpu:0"), epochs=1_000_000)
            run_id = client.start(both)
            wait_for_run(run_id, is_training)
            client.send(run_id, SaveCheckpoint())
            wait_for_event(run_id, CheckpointSaved)
            link.cut()
            waiting = "Waits for gpus, which is lost. With a lower Min machines, it would go on"
            wait_for_run(run_id, lambda now: now.reason.startswith(waiting))
            wait_for(lambda: desk.sees() == {"desk": True, "gpus": False})
            away = gpus.call("cluster", "status")
            assert away.code == 1
            assert sentence("named-head-of-cluster-does-not-answer", head=head) in away.errors
            link.mend()
            wait_for(lambda: desk.sees() == {"desk": True, "gpus": True})
            wait_for(lambda: gpus.sees() == {"desk": True, "gpus": True})
            info = wait_for_run(run_id, lambda now: is_training(now) and now.status.attempt > 1)
            assert info.status.replicas == 2
            client.send(run_id, Stop())
            assert wait_for_end(run_id).state is RunState.STOPPED
        finally:
            link.mend()
            gpus.leave()
            desk.leave()
