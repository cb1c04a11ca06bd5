"""What the other side of a connection sends has limits; what exceeds them ends it in words."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engine.interface.news.run_news import (
    LONGEST_LINE,
    MOST_EVENTS,
    MOST_LINES,
    SentNews,
    StoryPart,
    unpack_news,
)
from engine.interface.value_encoding import encode
from engine.interface.values import MOST_SERIES, NoAnswer, TooMuch
from engine.messages.events import Notice
from engine.remote import session, ssh
from engine.remote.frames import Hello
from engine.remote.remote_engine import remote_engine
from engine.remote.session import MOST_AT_ONCE, PER_SECOND, Broken, Pace, Session
from engine.runs.run_follower import Output
from engine.system.machines import RemoteMachine
from tests.support.flooding_machine import RUN, Flood

WAIT_SECONDS = 60.0


class _Link:
    """A session with a machine that floods."""

    def __init__(self, how: str, patch: pytest.MonkeyPatch) -> None:
        def start(command: Sequence[str], **_: Any) -> Flood:
            self.flood = Flood(how, command)
            return self.flood

        patch.setattr(session.children, "start", start)
        self.session = Session(["NONCE"], machine="flood")
        self.ended: list[Broken] = []
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._is_ready.wait(WAIT_SECONDS)
        self.engine = remote_engine("flood", self.session.call)

    def _run(self) -> None:
        try:
            self.session.run(self._ready)
        except Broken as error:
            self.ended.append(error)

    def _ready(self, _: Hello) -> None:
        self._is_ready.set()

    def why(self) -> str:
        """Wait for the end of the connection, and return what a person is told of it."""
        self._thread.join(WAIT_SECONDS)
        machine = RemoteMachine(name="flood", destination="flood")
        failure = ssh.failure_of(machine, self.ended[0])
        assert failure.is_lasting
        return failure.sentence

    def close(self) -> None:
        self.session.stop()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()


def test_a_list_of_too_many_series_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    link = _Link("series", monkeypatch)
    stream = link.engine.follow(RUN, ())
    with pytest.raises(NoAnswer):
        next(each for each in stream if each is not None)
    assert "flood" in link.why()
    assert f"{MOST_SERIES:,}" in link.why()


def test_a_message_that_is_too_large_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    link = _Link("zeros", monkeypatch)
    with pytest.raises(NoAnswer):
        link.engine.ping()
    assert "4 MiB" in link.why()


def test_what_is_told_without_a_pause_waits_on_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    is_full = threading.Event()

    def wait(_: Pace, count: int = 1) -> None:
        passed.append(count)
        if len(passed) == MOST_AT_ONCE:
            is_full.set()

    monkeypatch.setattr(Pace, "wait", wait)
    link = _Link("unasked", monkeypatch)
    assert is_full.wait(WAIT_SECONDS)
    link.close()


def test_the_pace_is_that_of_the_clock() -> None:
    now = 100.0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    pace = Pace(MOST_AT_ONCE, PER_SECOND, lambda: now, sleep)
    for _ in range(MOST_AT_ONCE):
        pace.wait()
    assert sum(slept) == pytest.approx(0.0, abs=1e-6)
    for _ in range(PER_SECOND):
        pace.wait()
    assert sum(slept) == pytest.approx(1.0)
    now += 1000.0
    slept.clear()
    pace.wait(MOST_AT_ONCE)
    assert sum(slept) == pytest.approx(0.0, abs=1e-6)
    pace.wait(PER_SECOND)
    assert slept == [pytest.approx(1.0)]


def _news(*parts: StoryPart) -> SentNews:
    return SentNews(b"", story=[msgspec.Raw(encode(each)) for each in parts])


def test_lines_of_a_rank_are_put_together_and_the_newest_are_taken() -> None:
    parts = [StoryPart(rank=0, lines=[f"{n}", "x" * 10_000]) for n in range(3)]
    first, second = unpack_news(_news(*parts, StoryPart(rank=1, lines=["y"])), "flood").story
    assert isinstance(first, Output)
    assert [line[0] for line in first.lines] == ["0", "x", "1", "x", "2", "x"]
    assert max(map(len, first.lines)) == LONGEST_LINE
    assert second == Output(1, ["y"])
    lines = [str(n) for n in range(MOST_LINES)]
    (output,) = unpack_news(_news(StoryPart(lines=["a"]), StoryPart(lines=lines)), "flood").story
    assert output == Output(0, lines, has_gaps=True)


def test_more_events_than_a_server_sends_are_refused() -> None:
    part = StoryPart([(n, 0.0, encode(Notice("x"))) for n in range(MOST_EVENTS)])
    assert len(unpack_news(_news(part), "flood").story[0]) == MOST_EVENTS
    with pytest.raises(TooMuch, match="5,000"):
        unpack_news(_news(part, part), "flood")


def test_lengths_are_checked_before_anything_is_decoded() -> None:
    # The strings after the head of the list are missing: they were not looked at.
    head = msgspec.msgpack.encode(["x"] * (MOST_SERIES + 1))[:3]
    packed = b"\x82" + encode("cursor") + encode(b"") + encode("series") + head
    with pytest.raises(msgspec.ValidationError, match=f"<= {MOST_SERIES}"):
        msgspec.msgpack.decode(packed, type=SentNews)
