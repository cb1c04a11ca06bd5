"""Where another process runs, as its run remembers it."""

from __future__ import annotations

import msgspec
import pytest

from engine.processes import machine
from engine.processes.machine import Machine, is_here, loopback_interface, rank_links, this_machine
from engine.processes.process import ON_LINUX

HERE = Machine("desk", "d1", "boot 7", "pid:[4026531836]")


def be(monkeypatch: pytest.MonkeyPatch, here: Machine) -> None:
    monkeypatch.setattr(machine, "this_machine", lambda: here)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"host": "renamed"}, True),
        ({"processes": "pid:[4026532000]"}, False),
        ({"boot": "boot 6"}, False),
        ({"boot": ""}, True),
    ],
)
def test_where_a_process_runs(
    changes: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not known is here."""
    be(monkeypatch, HERE)
    assert is_here(msgspec.structs.replace(HERE, **changes)) is expected


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
