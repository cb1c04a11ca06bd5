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
from engine.supervisor.machines.messages import LogText, RankExited, Stacks, decode_for_head
from engine.supervisor.machines.node import Node
from engine.system import paths

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


def test_stacks_name_the_recipe_as_the_head_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    copy = tmp_path / "folder" / "mine.py"

    def write_stacks(pid: int) -> None:
        paths.stacks_file(tmp_path, RANK).write_text(f'File "{copy}", line 3 in loss')

    monkeypatch.setattr(nodes, "BEAT_SECONDS", 1000.0)
    monkeypatch.setattr(nodes, "_STACKS_SECONDS", 0.0)
    monkeypatch.setattr(nodes, "ask_for_stacks", write_stacks)
    output = io.BytesIO()
    node: Any = Node(output)
    node._folder, node._original, node._workers = tmp_path, "/home/ada/work", {RANK: (7, 0.0)}
    node._send_stacks(RANK)
    output.seek(0)
    said = decode_for_head.decode(read_frame(output))
    assert said == Stacks(RANK, 'File "/home/ada/work/mine.py", line 3 in loss')
