"""How workers find each other's ports, and that no other machine reaches them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from engine.tf.parallelism.cluster import joined_cluster, leave_cluster, restrict_ports
from engine.training.errors import TrainingFailed
from engine.worker import environment


def open_server(port: int) -> socket.socket:
    """Listen as TensorFlow does: everywhere, and without sharing the port."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", port))
    server.listen()
    return server


def own_port() -> int:
    config = json.loads(os.environ["TF_CONFIG"])
    address = config["cluster"]["worker"][config["task"]["index"]]
    assert address.startswith("127.0.0.1:")
    return int(address.partition(":")[2])


@pytest.fixture
def rendezvous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "attempt-1.rendezvous"
    monkeypatch.setenv(environment.RENDEZVOUS, str(path))
    monkeypatch.setenv("TF_CONFIG", "whatever stood here before")
    return path


def test_a_reserved_port_is_free_for_our_server_alone(rendezvous: Path) -> None:
    with joined_cluster(0, 1), socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", own_port()))
        with open_server(own_port()) as server:
            assert server.getsockname()[1] == own_port()
    assert not list(rendezvous.parent.iterdir())


def test_all_ranks_wait_until_all_ports_are_known(rendezvous: Path) -> None:
    (rendezvous.parent / f"{rendezvous.name}.rank0").write_text("1000")
    third = rendezvous.parent / f"{rendezvous.name}.rank2"
    timer = threading.Timer(0.2, third.write_text, ["3000"])
    timer.start()
    with joined_cluster(1, 3):
        assert third.exists()
        config = json.loads(os.environ["TF_CONFIG"])
        first, mine, last = config["cluster"]["worker"]
        assert (first, last) == ("127.0.0.1:1000", "127.0.0.1:3000")
        assert mine == f"127.0.0.1:{own_port()}"
        assert config["task"] == {"type": "worker", "index": 1}
    timer.join()


def test_the_first_rank_to_leave_waits_for_all(rendezvous: Path) -> None:
    with ThreadPoolExecutor(1) as other:
        first = other.submit(leave_cluster, 0, 2)
        assert not first.done()
        leave_cluster(1, 2)
        first.result(60)


def test_the_cluster_of_another_launcher_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(environment.RENDEZVOUS, raising=False)
    monkeypatch.setenv("TF_CONFIG", "theirs")
    with joined_cluster(0, 2):
        assert os.environ["TF_CONFIG"] == "theirs"


def test_a_worker_without_a_cluster_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(environment.RENDEZVOUS, raising=False)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(TrainingFailed, match="without TF_CONFIG"), joined_cluster(0, 2):
        pass


@pytest.mark.skipif(not hasattr(socket, "SO_BINDTODEVICE"), reason="only Linux can do this")
def test_a_server_that_listens_everywhere_is_closed_to_other_machines() -> None:
    with open_server(0) as server:
        restrict_ports()
        device = server.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
        assert device.rstrip(b"\0") == b"lo"
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=60):
            pass


def _own_address() -> str:
    """An address of this machine other than the loopback one, as another machine would use it."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family is socket.AF_INET and not each.address.startswith("127."):
                return str(each.address)
    pytest.skip("this machine has only the loopback interface")


@pytest.mark.skipif(not hasattr(socket, "SO_BINDTODEVICE"), reason="only Linux can do this")
def test_connections_of_other_machines_from_before_the_restriction_are_cut() -> None:
    address = _own_address()
    with open_server(0) as server, contextlib.ExitStack() as open_ends:
        port = server.getsockname()[1]

        def call(host: str) -> socket.socket:
            return open_ends.enter_context(socket.create_connection((host, port), timeout=10))

        taken, own = call(address), call("127.0.0.1")
        for _ in range(2):
            open_ends.enter_context(server.accept()[0])
        waiting = call(address)  # the server has not taken it yet
        restrict_ports()
        assert taken.recv(1) == b"", "it was cut"
        open_ends.enter_context(server.accept()[0])
        assert waiting.recv(1) == b"", "it was cut soon after the server took it"
        own.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            own.recv(1)
        with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
            call(address)
