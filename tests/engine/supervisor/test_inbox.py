"""Everything that can happen to a supervisor, as one queue."""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing
from multiprocessing.connection import Pipe

import pytest

from engine.messages.channel import Channel, Hello
from engine.messages.commands import Pause
from engine.messages.events import Notice
from engine.supervisor.inbox import (
    MOST_UNREAD,
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


def test_a_command_overtakes_messages_that_wait_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, channel = Inbox(), Channel(Pipe()[0])
    points = [MessageReceived(0, channel, Notice(str(number))) for number in range(4)]
    command, signal = MessageReceived(-1, channel, Pause()), SignalReceived("SIGTERM")
    for item in (*points[:2], command, *points[2:], signal):
        inbox.put(item)
    assert inbox.next(SECONDS) == points[0], "at first it has to wait like all others"
    monkeypatch.setattr("engine.supervisor.inbox.LONGEST_WAIT", 0.0)
    later = MessageReceived(-1, channel, Pause(number=2))
    inbox.put(later)
    inbox._urgent = deque((0.0, item) for _, item in inbox._urgent)  # the time has passed
    assert [inbox.next(SECONDS) for _ in range(6)] == [command, signal, later, *points[1:]]
    assert inbox.next(0.0) is None


def test_a_command_is_in_its_place_if_the_others_are_handled_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.supervisor.inbox.LONGEST_WAIT", 1e6)
    inbox, channel = Inbox(), Channel(Pipe()[0])
    items = [
        MessageReceived(0, channel, Notice("one")),
        MessageReceived(-1, channel, Pause()),
        MessageReceived(0, channel, Notice("two")),
        SignalReceived("SIGTERM"),
    ]
    for item in items:
        inbox.put(item)
    assert [inbox.next(SECONDS) for _ in items] == items


def test_a_command_is_read_while_the_messages_of_workers_fill_the_inbox() -> None:
    inbox = Inbox()
    ours, theirs = map(Channel, Pipe())
    client, window = map(Channel, Pipe())
    with closing(ours), closing(theirs), closing(client), closing(window):
        inbox.connected(Hello(0), ours)
        inbox.connected(Hello(-1), client)
        for number in range(MOST_UNREAD + 2):
            theirs.send(Notice(str(number)))
        window.send(Pause())
        deadline = time.monotonic() + SECONDS
        while not inbox._urgent:
            assert time.monotonic() < deadline
