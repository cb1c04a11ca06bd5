"""The program on another machine: what it says of its workers."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.cluster.frames import read_frame
from engine.supervisor.inbox import WorkerExited
from engine.supervisor.machines import node as nodes
from engine.supervisor.machines.messages import LogText, RankExited, decode_for_head
from engine.supervisor.machines.node import Node

RANK = 1


def test_all_output_of_a_worker_arrives_before_its_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "BEAT_SECONDS", 1000.0)
    log = tmp_path / "rank1.log"
    log.write_bytes(bytes(range(256)) * 10_000)  # ten times what one message holds
    output = io.BytesIO()
    node: Any = Node(output)
    node._pool = SimpleNamespace(log_file=lambda rank: log)
    node._log_sizes[RANK] = 0
    node._report(WorkerExited(RANK, 3))
    output.seek(0)
    said = []
    while output.tell() < len(output.getvalue()):
        said.append(decode_for_head.decode(read_frame(output)))
    assert said[-1] == RankExited(RANK, 3)
    parts = [each.data for each in said if isinstance(each, LogText)]
    assert len(parts) == len(said) - 1 > 1
    assert b"".join(parts) == log.read_bytes()
