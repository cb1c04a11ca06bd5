"""Following a run: what the window shows of it, and going on from a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

from engine.interface.value_encoding import encode
from engine.messages.events import Notice, RunEnded
from engine.runs import run_follower
from engine.runs.run_follower import Output, RunCursor, RunFollower, RunNews
from engine.runs.run_state import RunState
from engine.spec.spec_file import FILE_NAME as SPEC
from tests.support.recorded_runs import RecordedRun
from tests.support.runs import delete_folder


class Reader:
    """Collects the news of followers, each of which goes on where the one before it was cut off."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.steps: dict[str, list[float]] = {}
        self.events: list[Any] = []
        self.lines: list[str] = []
        self.cursor: RunCursor | None = None

    def take(self, news: RunNews, cursor: RunCursor) -> None:
        for series, points, replaces in news.curves:
            before = [] if replaces else self.steps[series]
            self.steps[series] = [*before, *points.step]
        for part in news.story:
            if isinstance(part, Output):
                self.lines += part.lines
            else:
                self.events += [each.event for each in part]
        # As it comes back over a connection.
        self.cursor = msgspec.msgpack.decode(encode(cursor), type=RunCursor)

    def poll(self, *wanted: str, polls: int = 1) -> RunNews:
        """Poll with a new follower."""
        follower = RunFollower(
            self.run_id, self.cursor, is_wanted=lambda name: name in wanted, most_events=2
        )
        for _ in range(polls):
            news = follower.poll()
            self.take(news, follower.cursor)
        follower.close()
        return news


@pytest.fixture
def run() -> Iterator[RecordedRun]:
    run = RecordedRun()
    with closing(run.store):
        run.begin()
        yield run


def test_another_follower_goes_on_without_a_gap_and_without_twice(run: RecordedRun) -> None:
    reader = Reader(run.id)
    for round in range(4):
        run.add_points("train/loss", range(10 * round, 10 * round + 10))
        run.add(Notice(f"round {round}"))
        run.write_log(0, f"line {round}\nhal")
        reader.poll("train/loss", polls=3)
        run.write_log(0, "f\n")
    reader.poll("train/loss", polls=3)
    assert reader.steps["train/loss"] == list(range(40))
    assert [e.text for e in reader.events if isinstance(e, Notice)] == [
        f"round {round}" for round in range(4)
    ]
    assert reader.lines == [line for round in range(4) for line in (f"line {round}", "half")]


def test_points_that_were_taken_away_meanwhile_replace_the_curve(run: RecordedRun) -> None:
    reader = Reader(run.id)
    run.add_points("train/loss", range(10))
    reader.poll("train/loss")
    run.store.rewind(5)
    run.add_points("train/loss", [6, 7])
    reader.poll("train/loss")
    assert reader.steps["train/loss"] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_only_what_is_wanted_is_read_and_it_may_change(run: RecordedRun) -> None:
    for series in ("train/loss", "train/lr"):
        run.add_points(series, range(3))
    wanted = {"train/loss"}
    follower = RunFollower(run.id, is_wanted=lambda name: name in wanted)
    try:
        first = follower.poll()
        assert [each.series for each in first.curves] == ["train/loss"]
        assert set(first.series or ()) >= {"train/loss", "train/lr"}, "all are named"
        wanted.clear()
        wanted.add("train/lr")
        run.add_points("train/loss", [3])
        assert [each.series for each in follower.poll().curves] == ["train/lr"]
        wanted.add("train/loss")
        (update,) = follower.poll().curves
        assert (update.series, list(update.points.step), update.replaces) == (
            "train/loss",
            [3],
            False,
        )
    finally:
        follower.close()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda run: (run.folder / SPEC).write_bytes(bytes(range(256))), "cannot be read: "),
        (lambda run: delete_folder(run.folder), "was deleted, or is in the trash."),
    ],
    ids=["damaged", "gone"],
)
def test_a_damaged_run_is_not_called_deleted(
    run: RecordedRun, damage: Callable[[RecordedRun], object], told: str
) -> None:
    follower = RunFollower(run.id)
    with closing(follower):
        follower.poll()
        damage(run)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_follower, "ALIVE_CHECK_SECONDS", 0.0)
            assert follower.poll().trouble.startswith(f"Run {run.id} {told}")


def test_a_run_is_over_only_after_its_last_event(run: RecordedRun) -> None:
    follower = RunFollower(run.id, most_events=2)
    try:
        for number in range(5):
            run.add(Notice(str(number)))
        run.add(RunEnded("finished", ""))
        told = []
        for _ in range(6):
            news = follower.poll()
            told += [type(each.event) for part in news.story for each in part]
            told += [news.info.state] if news.info else []
        assert told[-2:] == [RunEnded, RunState.FINISHED]
        assert told.count(RunState.FINISHED) == 1
    finally:
        follower.close()
