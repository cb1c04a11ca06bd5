"""With which options `ray start` is called, and what its failures mean."""

from __future__ import annotations

from msgspec.structs import replace

from engine.cluster.membership import Cluster, ClusterError
from engine.cluster.ray_node import _failure, start_words

HEAD = Cluster(head="127.0.0.1:6379", name="desk", ip="127.0.0.1", is_head=True)
MEMBER = Cluster(head="10.0.0.1:6379", name="gpus", ip="10.0.0.2", member="1b2c")

MISMATCH = """2026-01-01 10:00:00,000\tINFO scripts.py:1234 -- Local node IP: 127.0.0.2
Traceback (most recent call last):
RuntimeError: Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on node 10.0.0.2 was started with:
    Ray: 2.59.0
    Python: 3.11.7
"""


def test_a_head_has_no_dashboard_and_no_autoscaler() -> None:
    words = start_words(HEAD, "/tmp/td", "1")
    assert {"--head", "--no-monitor", "--include-dashboard=False"} <= set(words)
    assert {"--port=6379", "--node-ip-address=127.0.0.1"} <= set(words)


def test_all_ports_of_a_member_are_of_its_range() -> None:
    ranged = replace(MEMBER, ports="20000-20199")
    words = start_words(ranged, "/tmp/td", "1")
    ports = [int(word.split("=")[1]) for word in words if "-port=" in word]
    assert len(set(ports)) == len(ports) == 8
    assert all(20000 <= port <= 20199 for port in ports)


def test_a_member_on_loopback_finds_its_head_there() -> None:
    words = start_words(Cluster(head=HEAD.head, name="b", ip="127.0.0.1"), "/tmp/td", "1")
    assert "--address=LOCALHOST:6379" in words
    assert not any("node-ip-address" in word for word in words)
    assert "--node-ip-address=10.0.0.2" in start_words(MEMBER, "/tmp/td", "1")


def test_other_versions_and_another_token_are_refused_and_all_else_is_tried_again() -> None:
    refused = _failure(MEMBER, MISMATCH)
    assert isinstance(refused, ClusterError)
    assert "install the same versions" in str(refused)
    assert "Ray: 2.59.0" in str(refused)
    token = _failure(MEMBER, "x\nray.exceptions.AuthenticationError: RPC error: InvalidAuthToken")
    assert isinstance(token, ClusterError)
    assert "refuses the token" in str(token)
    other = _failure(MEMBER, "Traceback\nConnectionError: it is away\n")
    assert isinstance(other, OSError)
    assert str(other) == "ConnectionError: it is away"
