"""Events are sent to a supervisor that reads, reads late, or never reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Pipe

import pytest

from engine.messages.channel import CLOSED, Alive, Channel, Flush, Message
from engine.messages.events import EpochEnded, Metrics, Notice
from engine.worker import event_sender
from engine.worker.event_sender import MOST_WAITING, EventSender
from tests.support.events import losses

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""

LARGE = 2000
"""Points in a batch of metrics: a pipe holds only a few of these."""


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    """The worker's side and the supervisor's."""
    worker, supervisor = map(Channel, Pipe())
    with closing(worker), closing(supervisor):
        yield worker, supervisor


def receive_all(supervisor: Channel, sender: EventSender, last: Message) -> list[Message]:
    """Everything up to `last`, then whatever the sender still has."""
    received = [supervisor.receive(SECONDS)]
    while received[-1] != last:
        received.append(supervisor.receive(SECONDS))
    sender.close(SECONDS)
    while True:
        try:
            received.append(supervisor.receive(0.0))
        except (TimeoutError, *CLOSED):
            return received


def test_events_arrive_in_the_order_in_which_they_were_put(
    channels: tuple[Channel, Channel],
) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    sent = [Notice(str(number)) for number in range(100)]
    for event in sent:
        sender.put(event)
    assert receive_all(supervisor, sender, sent[-1]) == sent


def test_flush_waits_until_earlier_events_are_on_disk(
    channels: tuple[Channel, Channel],
) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    sender.put(Notice("before"))
    number = sender.request_flush()
    waiting = threading.Thread(target=sender.wait_for_flush, args=(number, SECONDS))
    waiting.start()
    assert supervisor.receive(SECONDS) == Notice("before")
    assert supervisor.receive(SECONDS) == Flush(1)
    assert waiting.is_alive()
    sender.flushed(1)
    waiting.join(SECONDS)
    assert not waiting.is_alive()
    assert sender.wait_for_flush(number, 0.0)
    assert not sender.wait_for_flush(sender.request_flush(), 0.0), "there is no answer"
    assert supervisor.receive(SECONDS) == Flush(2)


def test_without_a_reader_nothing_blocks_and_only_metrics_are_dropped(
    channels: tuple[Channel, Channel],
) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=3)
    batches, epochs = [], []
    for number in range(2 * MOST_WAITING):
        batches.append(losses([float(number)] * LARGE))
        sender.put(batches[-1])
        if number % 100 == 0:
            epochs.append(EpochEnded(number, number, {}))
            sender.put(epochs[-1])

    received = receive_all(supervisor, sender, batches[-1])

    assert [event for event in received if isinstance(event, EpochEnded)] == epochs
    metrics = [event for event in received if isinstance(event, Metrics)]
    places = [event.points[0].values[0] for event in metrics]
    assert places == sorted(places)
    assert metrics[-1] == batches[-1], "the oldest are dropped, not the newest"
    [notice] = [event for event in received if isinstance(event, Notice)]
    dropped = len(batches) - len(metrics)
    assert dropped > 0
    assert notice == Notice(
        f"The supervisor was too slow: {dropped} batches of points were dropped.", rank=3
    )


def test_more_events_than_fit_are_all_kept_when_none_is_metrics(
    channels: tuple[Channel, Channel],
) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    sent = [Notice("x" * 1000 + str(number)) for number in range(MOST_WAITING + 500)]
    for event in sent:
        sender.put(event)
    assert receive_all(supervisor, sender, sent[-1]) == sent


def test_closing_sends_what_waits(channels: tuple[Channel, Channel]) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    sender.put(Notice("last words"))
    sender.close(SECONDS)
    assert supervisor.receive(0.0) == Notice("last words")


def test_closing_gives_up_on_a_supervisor_that_does_not_read(
    channels: tuple[Channel, Channel],
) -> None:
    sender = EventSender(channels[0], rank=0)
    for _ in range(20):
        sender.put(losses([1.0] * 100 * LARGE))
    sender.close(0.01)
    assert sender._thread.is_alive()
    channels[1].close()
    sender._thread.join(SECONDS)


def test_a_supervisor_that_is_gone_is_no_error(channels: tuple[Channel, Channel]) -> None:
    worker, supervisor = channels
    supervisor.close()
    sender = EventSender(worker, rank=0)
    sender.put(Notice("anybody there?"))
    sender.close(SECONDS)
    sender.put(Notice("hello?"))
    assert not sender._thread.is_alive()


def test_a_worker_without_events_sends_signs_of_life(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, supervisor = channels
    monkeypatch.setattr(event_sender, "BEAT_SECONDS", 0.01)
    signs = iter([Alive(), Alive("training", 7)])
    sender = EventSender(worker, 0, lambda: next(signs, Alive("validation", 8)))
    received = [supervisor.receive(SECONDS) for _ in range(3)]
    assert received == [Alive(), Alive("training", 7), Alive("validation", 8)]
    sender.close(SECONDS)
