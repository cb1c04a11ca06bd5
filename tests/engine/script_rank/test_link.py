"""The socket of a rank: who may speak, who leads, and what nonsense does."""

from __future__ import annotations

import json
import queue
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.script_rank.frames import Hello, NewPoints, Said
from engine.script_rank.link import Closed, Link, Received


def framed(frame: Any) -> bytes:
    content = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    return struct.pack(">I", len(content)) + content


@pytest.fixture
def inbox() -> queue.Queue[Any]:
    return queue.Queue(64)


@pytest.fixture
def link(
    tmp_path: Path, inbox: queue.Queue[Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Link]:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    found = Link(Path("r0"), inbox)
    yield found
    found.close()


def connected(link: Link, **hello: Any) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect("r0")
    client.sendall(framed({"kind": "hello", "key": link.key, "pid": 1, **hello}))
    return client


def test_frames_arrive_in_order_and_the_greeting_is_sent(
    link: Link, inbox: queue.Queue[Any]
) -> None:
    link.greeting.append({"kind": "save_every"})
    with connected(link) as client:
        client.sendall(framed({"kind": "points", "points": [["a", [1], [float("nan")], []]]}))
        client.sendall(framed({"kind": "notice", "text": "ü"}))
        frames = [inbox.get(timeout=60).frame for _ in range(3)]
        assert [type(frame) for frame in frames] == [Hello, NewPoints, Said]
        assert frames[2].text == "ü"
        assert client.recv(100)[4:] == b'{"kind": "save_every"}'
    assert isinstance(inbox.get(timeout=60), Closed)


def test_nonsense_is_left_out_and_the_rest_arrives(link: Link, inbox: queue.Queue[Any]) -> None:
    with connected(link) as client:
        for nonsense in (b"", b"\xff", b"[" * 100_000, {"kind": "points", "step": "x"}, {}, 3):
            client.sendall(framed(nonsense))
        client.sendall(framed({"kind": "notice", "text": "after"}))
        assert isinstance(inbox.get(timeout=60).frame, Hello)
        assert inbox.get(timeout=60).frame == Said("after")
        client.sendall(struct.pack(">I", 2**31))
        assert isinstance(inbox.get(timeout=60), Closed), "where the next frame begins is unknown"


def test_no_text_of_a_script_is_one_that_cannot_be_stored(
    link: Link, inbox: queue.Queue[Any]
) -> None:
    with connected(link) as client:
        client.sendall(framed({"kind": "points", "points": [["\ud800x \U0001f600", [1], [1], []]]}))
        client.sendall(framed({"kind": "points", "points": [["a", [1], [10**400], []]]}))
        client.sendall(framed(b'{"kind": "notice", "text": "\xed\xa0\x80"}'))
        assert isinstance(inbox.get(timeout=60).frame, Hello)
        points, said = (inbox.get(timeout=60).frame for _ in range(2))
    [(name, *_)] = points.points
    assert name == "\\ud800x \U0001f600"
    assert said.text.encode()


def test_without_the_key_there_is_no_connection(link: Link, inbox: queue.Queue[Any]) -> None:
    with connected(link, key="wrong") as client:
        assert client.recv(1) == b""
    assert inbox.empty()


def test_the_first_that_trains_leads(link: Link, inbox: queue.Queue[Any]) -> None:
    one, two = connected(link), connected(link, pid=2)
    found: list[Received] = [inbox.get(timeout=60) for _ in range(2)]
    first, second = sorted((each.connection for each in found), key=lambda each: each.hello.pid)
    assert link.leads(first, NewPoints(step=0))
    assert link.leader is None
    assert link.leads(second, NewPoints(step=1))
    assert not link.leads(first, NewPoints(step=5))
    assert link.addressee is second
    again = connected(link, pid=2)
    anew = inbox.get(timeout=60)
    assert link.leads(anew.connection, anew.frame), "it has connected once more"
    assert link.leads(second, NewPoints(step=2))
    assert link.addressee is anew.connection
    link.ended(second)
    assert not link.leads(first, NewPoints(step=5))
    link.ended(anew.connection)
    assert link.leads(first, NewPoints(step=5))
    again.close()
    one.close()
    two.close()
