"""Where another process runs: the real namespaces are in tests/faults/test_other_machines.py."""

from __future__ import annotations

import msgspec
import pytest

from engine.processes import machine
from engine.processes.machine import (
    Machine,
    Where,
    loopback_interface,
    rank_links,
    share_devices,
    this_machine,
    where_is,
)
from engine.processes.process import ON_LINUX

HERE = Machine("desk", "d1", "boot 7", "pid:[4026531836]")


def be(monkeypatch: pytest.MonkeyPatch, here: Machine) -> None:
    monkeypatch.setattr(machine, "this_machine", lambda: here)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Where.HERE),
        ({"host": "renamed"}, Where.HERE),
        ({"processes": "pid:[4026532000]"}, Where.CONTAINER),
        ({"processes": "pid:[4026532000]", "host": "5c7f", "id": ""}, Where.CONTAINER),
        ({"boot": "boot 6"}, Where.EARLIER),
        ({"boot": "boot 6", "processes": "pid:[4026532000]"}, Where.EARLIER),
        ({"boot": "boot 6", "host": "clone"}, Where.ELSEWHERE),
        ({"boot": "boot 6", "id": "d2"}, Where.ELSEWHERE),
    ],
)
def test_where_a_process_runs(
    changes: dict[str, str], expected: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, HERE)
    assert where_is(msgspec.structs.replace(HERE, **changes)) is expected


def test_what_is_not_known_is_here() -> None:
    assert where_is(Machine()) is Where.HERE
    assert share_devices(Machine(), HERE)


def test_two_machines_without_a_number_are_never_taken_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = msgspec.structs.replace(HERE, id="")
    be(monkeypatch, bare)
    assert where_is(msgspec.structs.replace(bare, boot="boot 6")) is Where.ELSEWHERE


def test_containers_share_their_devices_and_machines_do_not() -> None:
    assert share_devices(HERE, msgspec.structs.replace(HERE, processes="pid:[1]"))
    assert not share_devices(HERE, msgspec.structs.replace(HERE, boot="boot 8"))


@pytest.mark.skipif(not ON_LINUX, reason="other systems tell none of this")
def test_this_machine_is_known() -> None:
    found = this_machine()
    assert found.host
    assert found.boot
    assert found.processes.startswith("pid:")


@pytest.mark.parametrize("level", [None, "INFO"])
def test_ranks_use_the_loopback_interface_and_nccl_tells_the_reason_of_its_errors(
    monkeypatch: pytest.MonkeyPatch, level: str | None
) -> None:
    monkeypatch.delenv("NCCL_DEBUG", raising=False)
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    if level:
        monkeypatch.setenv("NCCL_DEBUG", level)
    found = rank_links()
    name = found["GLOO_SOCKET_IFNAME"]
    assert name == loopback_interface()
    assert found["NCCL_SOCKET_IFNAME"] == (f"={name}" if name else "")
    assert found["NCCL_DEBUG"] == (level or "WARN")
