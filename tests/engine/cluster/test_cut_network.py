"""A machine in a network of its own, whose cable is pulled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import slow_link
from tests.support.cluster_machine import ClusterMachine, wait_for
from tests.support.slow_link import SlowLink

pytest.importorskip("ray", reason="Ray is not installed: pip install 'traindeck[cluster]'")
pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.slow]


def test_a_machine_without_a_network_is_lost_and_comes_back_by_itself(tmp_path: Path) -> None:
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
            link.cut()
            wait_for(lambda: desk.sees() == {"desk": True, "gpus": False})
            away = gpus.call("cluster", "status")
            assert away.code == 1
            assert f"The head of the cluster, {head}, does not answer" in away.errors
            link.mend()
            wait_for(lambda: desk.sees() == {"desk": True, "gpus": True})
            wait_for(lambda: gpus.sees() == {"desk": True, "gpus": True})
        finally:
            link.mend()
            gpus.leave()
            desk.leave()
