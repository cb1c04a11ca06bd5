"""Events are sent to a supervisor that reads, reads late, or never reads."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Pipe

import numpy as np
import pytest

from engine.messages.channel import CLOSED, Alive, Channel, Flush, Message
from engine.messages.events import EpochEnded, Metrics, Notice, Points, Progress
from engine.messages.merged_metrics import is_storable
from engine.worker import event_sender
from engine.worker.event_sender import MOST_UNMERGED, EventSender
from tests.support.events import losses
from tests.support.sentences import sentence

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""

LARGE = 2000
"""Points in a batch of metrics: a pipe holds only a few of these."""


BLOCKERS = MOST_UNMERGED + 50
"""Large batches of which a few are in the pipe and the others wait, so that later ones merge."""


def block(sender: EventSender) -> None:
    """Let the sender wait for its supervisor."""
    for number in range(BLOCKERS):
        sender.put(losses([0.0] * LARGE * 2, first_step=number))


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


def test_a_text_that_cannot_be_sent_ends_nothing(channels: tuple[Channel, Channel]) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, 0)
    sender.put(losses([0.5]))
    sender.put(Metrics(1.0, 2.0, [Points("\ud800", [1], [1.0])]))
    sender.put(Notice("last"))
    first, second, *_ = receive_all(supervisor, sender, Notice("last"))
    assert (first, type(second)) == (losses([0.5]), Notice)
    assert [type(each.event) for each in sender.unrecorded()] == [Metrics, Notice, Notice]


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


def test_without_a_reader_nothing_blocks_and_only_points_are_dropped(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_sender, "MOST_POINTS", 1_000_000)
    worker, supervisor = channels
    sender = EventSender(worker, rank=3)
    batches, epochs = [], []
    for number in range(2000):
        batches.append(losses([float(number)] * LARGE))
        sender.put(batches[-1])
        if number % 100 == 0:
            epochs.append(EpochEnded(number, number, {}))
            sender.put(epochs[-1])
    last = Notice("the end")
    sender.put(last)

    received = receive_all(supervisor, sender, last)

    assert [event for event in received if isinstance(event, EpochEnded)] == epochs
    points = [p for event in received if isinstance(event, Metrics) for p in event.points]
    values = [value for series in points for value in series.values]
    assert values == sorted(values)
    assert values[-LARGE:] == batches[-1].points[0].values, "the oldest are dropped, not the newest"
    [notice, _] = [event for event in received if isinstance(event, Notice)]
    dropped = len(batches) * LARGE - len(values)
    assert dropped >= len(batches) * LARGE - 1_000_000 - 20 * LARGE
    assert notice == Notice(sentence("supervisor-was-too-slow", dropped=dropped), rank=3)


def test_ten_minutes_of_stall_lose_no_point_and_no_event(
    channels: tuple[Channel, Channel],
) -> None:
    """A thousand points a second of many series, ten reports a second, and an epoch each second."""
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    names = [f"train/{number}" for number in range(20)]
    sent: dict[str, list[tuple[int, float, float]]] = {name: [] for name in names}
    others: list[Message] = []
    for report in range(6000):
        steps, begin, end = (
            list(range(5 * report + 1, 5 * report + 6)),
            report / 10,
            report / 10 + 0.1,
        )
        points = [Points(name, steps, [step / 7 for step in steps]) for name in names]
        sender.put(Metrics(begin, end, points))
        times = np.linspace(begin, end, 6)[1:]
        for name in names:
            sent[name] += [(step, step / 7, time) for step, time in zip(steps, times, strict=True)]
        sender.put(Progress(1, steps[-1], 1.0, 1.0, 600.0 - end))
        if report % 10 == 9:
            others.append(EpochEnded(report, steps[-1], {}))
            sender.put(others[-1])
    assert len(sender._waiting) < 2500

    received = receive_all(supervisor, sender, others[-1])

    assert [e for e in received if not isinstance(e, Metrics | Progress | Alive)] == others
    found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in names}
    for event in received:
        if isinstance(event, Metrics):
            for points in event.points:
                times = (
                    points.times or np.linspace(event.begin, event.end, len(points.steps) + 1)[1:]
                )
                found[points.series] += zip(points.steps, points.values, times, strict=True)
    assert found == sent, "neither a point nor its time has changed"
    progress = [event.step for event in received if isinstance(event, Progress)]
    assert progress == sorted(progress)
    assert progress[-1] == 30_000
    assert len(progress) < 1000


def test_a_progress_stays_before_the_events_that_follow_it(
    channels: tuple[Channel, Channel],
) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    block(sender)
    first, last = EpochEnded(1, 10, {}), EpochEnded(2, 20, {})
    for step in range(1, 11):
        sender.put(losses([1.0], first_step=step))
        sender.put(Progress(1, step, 1.0, 1.0, 1.0))
    sender.put(first)
    for step in range(11, 21):
        sender.put(Progress(2, step, 1.0, 1.0, 1.0))
        sender.put(losses([2.0], first_step=step))
    sender.put(last)
    received = receive_all(supervisor, sender, last)[BLOCKERS:]
    kinds = [type(event) for event in received]
    assert kinds == [Metrics, Progress, EpochEnded] * 2
    assert [event.step for event in received if isinstance(event, Progress)] == [10, 20]


def test_points_that_cannot_be_stored_spoil_no_others(channels: tuple[Channel, Channel]) -> None:
    """A recipe can send any: the supervisor refuses the whole event."""
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    block(sender)
    bad = [
        Metrics(1.0, 2.0, [Points("x", [-1], [1.0])]),
        Metrics(1.0, 2.0, [Points("x", [1, 2], [1.0])]),
        Metrics(1.0, math.inf, [Points("x", [1], [1.0])]),
        Metrics(1.0, 2.0, [Points("x", [2**63], [1.0])]),
    ]
    for event in bad:
        sender.put(losses([1.0]))
        sender.put(event)
    last = Notice("the end")
    sender.put(last)
    received = receive_all(supervisor, sender, last)[BLOCKERS:]
    assert received[1:8:2] == bad
    assert all(is_storable(event) for event in received[0:8:2] if isinstance(event, Metrics))


def test_a_checkpoint_waits_for_its_points_while_the_supervisor_takes_messages(
    channels: tuple[Channel, Channel],
) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    for number in range(50):
        sender.put(losses([float(number)] * LARGE * 10))
    number = sender.request_flush()
    waiting = threading.Thread(target=sender.wait_for_flush, args=(number, 2.0))
    waiting.start()
    for _ in range(50):  # slowly: together longer than the time after which it gives up
        waiting.join(0.05)
        assert isinstance(supervisor.receive(SECONDS), Metrics)
        assert waiting.is_alive()
    assert supervisor.receive(SECONDS) == Flush(1)
    sender.flushed(1)
    waiting.join(SECONDS)


def test_more_events_than_are_left_unmerged_are_all_kept_when_none_has_points(
    channels: tuple[Channel, Channel],
) -> None:
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    sent = [Notice("x" * 1000 + str(number)) for number in range(MOST_UNMERGED + 1400)]
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


def test_events_are_kept_until_they_are_recorded(channels: tuple[Channel, Channel]) -> None:
    """Signs of life and questions are no events, and have no number."""
    worker, supervisor = channels
    sender = EventSender(worker, rank=0)
    sent = [Notice(str(number)) for number in range(5)]
    for event in sent[:3]:
        sender.put(event)
    sender.request_flush()
    sender.put(sent[3])
    while supervisor.receive(SECONDS) != sent[3]:
        pass
    assert [(each.number, each.event) for each in sender.unrecorded()] == list(
        enumerate(sent[:4], 1)
    )
    sender.recorded(2)
    sender.orphaned()
    sender._thread.join(SECONDS)
    sender.put(sent[4])
    assert [(each.number, each.event) for each in sender.unrecorded()] == [
        (3, sent[2]),
        (4, sent[3]),
        (5, sent[4]),
    ]
    assert not sender.wait_for_flush(sender.request_flush(), SECONDS), "without an answer, at once"
    sender.close(SECONDS)
