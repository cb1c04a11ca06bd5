"""What a machine tells of itself, without Ray."""

from __future__ import annotations

import socket

import msgspec
import pytest

from engine.cluster.machine_facts import HeadAnswer, MachineFacts, answer_facts, answer_new_node
from engine.cluster.versions import own_versions


def reach(host: str, port: int) -> str:
    return msgspec.json.decode(answer_new_node(host, port), type=HeadAnswer).cannot_reach


def test_a_port_is_reached_or_the_reason_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert reach("127.0.0.1", port) == ""
    assert reach("127.0.0.1", port) == "Connection refused"


@pytest.mark.usefixtures("processes")
def test_the_facts_are_read_back_as_they_were_told() -> None:
    told = msgspec.json.decode(answer_facts(), type=MachineFacts)
    assert told.versions == own_versions()
    assert told.snapshot.devices[-1].kind == "cpu"
    assert set(told.given.uuids) <= set(told.snapshot.selectable_gpus())
