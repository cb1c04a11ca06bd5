"""A machine that gets another address, such as by DHCP."""

from __future__ import annotations

import pytest

from engine.cluster import address, lifecycle, membership
from engine.cluster.membership import Cluster, ClusterError
from engine.cluster.node_process import with_own_address

BEFORE = "203.0.113.7"
"""An address for documents, which no machine has."""


@pytest.fixture(autouse=True)
def ray_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "require_ray", lambda: None)


def test_a_member_joins_again_with_its_new_address() -> None:
    moved = Cluster(head="127.0.0.1:6379", name="gpus", ip=BEFORE, member="1b2c")
    membership.save(moved, "0" * 32)
    assert with_own_address(moved).ip == "127.0.0.1"
    found = membership.cluster()
    assert found is not None
    assert (found.ip, found.name, found.member) == ("127.0.0.1", "gpus", "1b2c")
    assert membership.token() == "0" * 32


def test_an_address_that_it_has_stays() -> None:
    there = Cluster(head="127.0.0.1:6379", name="gpus", ip=address.default_address())
    assert with_own_address(there) == there


def test_a_head_that_moved_says_that_its_cluster_is_over() -> None:
    membership.save(Cluster(head=f"{BEFORE}:6379", name="desk", ip=BEFORE, is_head=True), "0" * 32)
    with pytest.raises(ClusterError, match=rf"has the address {BEFORE} no more.*cluster stop"):
        lifecycle.start("", "", None, "")
