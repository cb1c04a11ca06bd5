"""Everything that can happen to a supervisor, as one queue."""

from __future__ import annotations

from contextlib import closing
from multiprocessing.connection import Pipe

from engine.messages.channel import Channel, Hello
from engine.messages.commands import Pause
from engine.messages.events import Notice
from engine.supervisor.inbox import (
    Connected,
    Disconnected,
    Inbox,
    InboxItem,
    MessageReceived,
    SignalReceived,
)

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""


def test_items_come_out_in_the_order_in_which_they_came_in() -> None:
    inbox = Inbox()
    items: list[InboxItem] = [SignalReceived("SIGTERM"), Disconnected(1), Disconnected(0)]
    for item in items:
        inbox.put(item)
    assert [inbox.next(SECONDS) for _ in items] == items


def test_an_empty_inbox_returns_none() -> None:
    assert Inbox().next(0.0) is None
    assert Inbox().next(-1.0) is None, "a time that is over already"


def test_a_connection_is_announced_then_read_and_its_end_comes_last() -> None:
    inbox = Inbox()
    ours, theirs = map(Channel, Pipe())
    with closing(ours):
        inbox.connected(Hello(2), ours)
        assert inbox.next(SECONDS) == Connected(Hello(2), ours)
        with closing(theirs):
            theirs.send(Notice("one"))
            theirs.send(Notice("two"))
        assert [inbox.next(SECONDS) for _ in range(3)] == [
            MessageReceived(2, ours, Notice("one")),
            MessageReceived(2, ours, Notice("two")),
            Disconnected(2),
        ]


def test_a_frame_that_is_not_a_message_is_skipped() -> None:
    inbox = Inbox()
    ours, theirs = Pipe()
    channel = Channel(ours)
    with closing(channel), theirs:
        inbox.connected(Hello(-1), channel)
        assert inbox.next(SECONDS) == Connected(Hello(-1), channel)
        theirs.send_bytes(b"garbage")
        with closing(Channel(theirs)) as caller:
            caller.send(Pause())
            assert inbox.next(SECONDS) == MessageReceived(-1, channel, Pause())
        assert inbox.next(SECONDS) == Disconnected(-1)
