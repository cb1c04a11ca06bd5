"""A cluster of real Ray nodes on this machine: begun, joined, cut off, left."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.cluster import lifecycle, membership
from tests.support.cluster_machine import LONGEST, ClusterMachine, two_machines, wait_for
from tests.support.sentences import sentence

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[cluster]'")
pytestmark = pytest.mark.usefixtures("processes")

Cluster = tuple[ClusterMachine, ClusterMachine]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Cluster]:
    """A head `desk`, and the machine `gpus` that has joined."""
    with two_machines(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def third(tmp_path: Path) -> Iterator[ClusterMachine]:
    machine = ClusterMachine(tmp_path, "third", "127.0.0.3")
    yield machine
    machine.leave()


def head_of(desk: ClusterMachine) -> str:
    return str(desk.call("cluster", "start", "--json").json["head"])


def test_a_machine_sees_all_machines_with_versions_devices_and_clocks(cluster: Cluster) -> None:
    """The one that has joined; `test_devices_are_listed_by_machine` asks the head."""
    status = cluster[1].call("cluster", "status", "--json")
    assert status.code == 0, status
    desk, gpus = status.json["machines"]
    assert [desk["name"], gpus["name"]] == ["desk", "gpus"]
    assert [desk["is_head"], gpus["is_head"]] == [True, False]
    assert [desk["is_here"], gpus["is_here"]] == [False, True]
    assert desk["versions"] == gpus["versions"]
    assert desk["versions"]["ray"] == pytest.importorskip("ray").__version__
    assert [each["devices"][-1]["id"] for each in (desk, gpus)] == ["cpu", "cpu"]
    assert all(abs(each["clock_offset"]) < 60 for each in (desk, gpus))  # one clock
    assert status.json["differs"] == []


def test_devices_are_listed_by_machine(cluster: Cluster) -> None:
    desk, _ = cluster
    listed = desk.call("devices", "--json").json
    assert [device["id"] for device in listed if device["kind"] == "cpu"] == ["cpu", "gpus/cpu"]
    assert listed[-1]["machine"] == "gpus"


def test_the_line_to_paste_is_printed_again(cluster: Cluster) -> None:
    desk, gpus = cluster
    again = desk.call("cluster", "start")
    assert again.code == 0
    *_, join, head, option, token = again.output.split()
    assert (join, option, token) == ("join", "--token", desk.token)
    assert sentence("names-address-that-others-reach") in again.errors
    assert "runs already" in gpus.join(head, desk.token).errors


def test_a_machine_of_another_cluster_is_told_so_also_while_its_node_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = membership.Cluster(
        head="127.0.0.1:1", name="gpus", ip="127.0.0.2", member="ab", ports=""
    )
    membership.save(known, "0" * 64)
    monkeypatch.setattr(lifecycle, "_node_lives", lambda: True)
    with pytest.raises(
        membership.ClusterError, match=sentence("in-another-cluster-end-that").pattern
    ):
        lifecycle.join("127.0.0.9:1", "0" * 64, "", "", "")


def test_the_token_is_in_no_other_file_and_in_no_command_line(cluster: Cluster) -> None:
    token = cluster[0].token
    for machine in cluster:
        lines = []
        for each in (machine.node, *machine.node.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # Ray ends some of them
                lines.append(" ".join(each.cmdline()))
        assert len(lines) >= 3
        assert not any(token in line for line in lines)
        files = [each for each in machine.home.rglob("*") if each.is_file()]
        holding = [each.name for each in files if token.encode() in each.read_bytes()]
        assert holding == ["cluster-token"]
        assert all(each.stat().st_mode & 0o077 == 0 for each in files)


def test_other_users_of_a_machine_reach_no_file_or_socket_of_ray(cluster: Cluster) -> None:
    for machine in cluster:
        folder = Path(json.loads((machine.home / "cluster-node.json").read_text())["ray_folder"])
        assert folder.stat().st_mode & 0o077 == 0
        assert list(folder.glob("*/session_latest/sockets/raylet"))


def test_a_wrong_token_is_refused_and_is_in_no_log(cluster: Cluster, third: ClusterMachine) -> None:
    token = "0123456789abcdef" * 4
    refused = third.call(
        *("--log-level", "debug", "cluster", "join", head_of(cluster[0]), "--token", token),
        variables={"TRAINDECK_LOG_FOLDER": str(third.home / "logs")},
    )
    assert refused.code == 2
    assert "refuses the token" in refused.errors
    assert not (third.home / "cluster-token").exists()
    logs = list((third.home / "logs").glob("debug-*.log"))
    assert logs
    assert not any(token in each.read_text() for each in logs)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("token", "flags", "said"),
    [
        ("no token", (), "is no token of a cluster"),
        (None, ("--name", "gpus"), sentence("there-is-machine-gpus-in-cluster")),
        (None, ("--host", "203.0.113.7"), sentence("this-machine-has-no-address")),
        (None, ("--ports", "80-90"), "is no range of ports"),
        (None, ("--name", "a/b"), "is no name for a machine"),
    ],
)
def test_who_may_not_join_is_told_why_and_leaves_nothing_behind(
    cluster: Cluster,
    third: ClusterMachine,
    token: str | None,
    flags: tuple[str, ...],
    said: str,
) -> None:
    desk, _ = cluster
    refused = third.join(head_of(desk), token or desk.token, *flags)
    assert refused.code == 2
    assert said in refused.errors
    assert "Traceback" not in refused.errors
    assert not (third.home / "cluster.toml").exists()
    assert not (third.home / "cluster-token").exists()


@pytest.mark.nightly
def test_other_versions_are_refused(cluster: Cluster, third: ClusterMachine) -> None:
    desk, _ = cluster
    found = third.call(
        *("cluster", "join", head_of(desk), "--token", desk.token, "--name", "third"),
        variables={"PYTHONPATH": str(Path(__file__).parent / "other_ray")},
    )
    assert found.code == 2
    assert "Ray is 2.0.0 here" in found.errors
    assert "install the same versions" in found.errors


@pytest.mark.nightly
def test_a_machine_whose_ray_was_killed_comes_back_by_itself(cluster: Cluster) -> None:
    desk, gpus = cluster
    process = gpus.node
    raylet = gpus.kill_raylet()
    wait_for(lambda: "the node is started again" in gpus.log)
    wait_for(lambda: gpus.raylet not in (None, raylet))
    wait_for(lambda: desk.sees() == {"desk": True, "gpus": True})
    assert gpus.node == process


@pytest.mark.nightly
def test_who_leaves_leaves_no_process_no_folder_and_no_name(
    cluster: Cluster, third: ClusterMachine
) -> None:
    desk, _ = cluster
    first = 20_000 + os.getpid() % 100 * 100  # another one for each process with these tests
    own = f"{first}-{first + 99}"
    assert third.join(head_of(desk), desk.token, "--ports", own).code == 0
    tree = [third.node, *third.node.children(recursive=True)]
    ports = set()
    for each in tree:
        with contextlib.suppress(psutil.NoSuchProcess):  # Ray ends some of them
            found = each.net_connections("inet")
            ports |= {at.laddr.port for at in found if at.status == psutil.CONN_LISTEN}
    assert ports <= set(range(first, first + 100))
    assert third.call("cluster", "stop").code == 2  # it is not the head
    assert third.call("cluster", "leave").code == 0
    _, alive = psutil.wait_procs(tree, timeout=LONGEST)
    assert alive == []
    left = {each.name for each in third.home.iterdir() if not each.name.startswith("used-by-")}
    assert left == {"cluster.lock", "logs"}
    assert "third" not in desk.call("cluster", "status").output
    assert third.join(head_of(desk), desk.token).code == 0


@pytest.mark.nightly
def test_a_killed_process_takes_ray_with_it_and_its_machine_can_come_back(
    cluster: Cluster, third: ClusterMachine
) -> None:
    desk, _ = cluster
    assert third.join(head_of(desk), desk.token).code == 0
    tree = [third.node, *third.node.children(recursive=True)]
    tree[0].kill()
    _, alive = psutil.wait_procs(tree, timeout=LONGEST)
    assert alive == []
    status = third.call("cluster", "status")
    assert status.code == 1
    assert "does not run" in status.errors
    assert third.call("cluster", "join").code == 0
    assert third.call("cluster", "status").code == 0
    assert third.call("cluster", "leave").code == 0
    assert "third" not in desk.call("cluster", "status").output, "it was lost, and has left since"
