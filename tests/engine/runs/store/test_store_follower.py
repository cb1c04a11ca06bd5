"""What a follower returns: everything once, and everything again where points were taken away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.messages.events import Metrics, Notice, Points, RunEnded
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.run_store import FILE_NAME, RunStore
from engine.runs.store.store_follower import CurveUpdate, StoreCursor, StoreFollower

Read = list[tuple[str, list[float], bool]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as store:
        yield store


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[StoreFollower]:
    with closing(StoreFollower(tmp_path)) as follower:
        yield follower


def add(store: RunStore, series: str, *steps: int) -> None:
    points = Points(series, list(steps), [float(step) for step in steps])
    store.append(Metrics(1.0, 2.0, [points]), 2.0)
    store.commit()


def read(updates: Iterator[CurveUpdate]) -> Read:
    return [(each.series, each.points.value.tolist(), each.replaces) for each in updates]


def test_before_there_is_a_store_there_is_nothing(follower: StoreFollower) -> None:
    assert not follower.open()
    assert follower.status() == RunStatus()
    assert follower.new_events() == []
    assert read(follower.new_curves()) == []


@pytest.mark.parametrize("made", ["", "CREATE TABLE event (seq INTEGER PRIMARY KEY)"])
def test_a_store_that_is_being_created_is_not_there_yet(
    tmp_path: Path, follower: StoreFollower, made: str
) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(made)
    assert not follower.open()
    RunStore(tmp_path).close()
    assert follower.open()


def test_a_store_that_has_lost_its_status_is_damaged(
    store: RunStore, tmp_path: Path, follower: StoreFollower
) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("DROP TABLE status")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        follower.open()


def test_status_events_and_curves_are_those_of_one_time(
    store: RunStore, follower: StoreFollower
) -> None:
    """What the supervisor writes meanwhile comes with the next read: all of it."""
    add(store, "train/loss", 1)
    assert follower.open()
    with follower.at_one_time():
        assert follower.status().state is RunState.STARTING
        add(store, "train/loss", 2)
        store.append(RunEnded("stopped", ""), 3.0)
        store.commit()
        assert read(follower.new_curves()) == [("train/loss", [1], True)]
        assert follower.new_events() == []
    with follower.at_one_time():
        assert follower.status().state is RunState.STOPPED
        assert read(follower.new_curves()) == [("train/loss", [2], False)]
        assert len(follower.new_events()) == 1


def test_everything_comes_once(store: RunStore, follower: StoreFollower) -> None:
    add(store, "train/loss", 1, 2)
    store.append(Notice("one"), 1.0)
    store.commit()
    assert follower.open()
    assert [stored.event for stored in follower.new_events()] == [Notice("one")]
    assert read(follower.new_curves()) == [("train/loss", [1, 2], True)]
    assert follower.new_events() == []
    assert read(follower.new_curves()) == []
    add(store, "train/loss", 3)
    store.append(RunEnded("stopped", ""), 3.0)
    store.commit()
    assert follower.status().state is RunState.STOPPED
    assert [stored.event for stored in follower.new_events()] == [RunEnded("stopped", "")]
    assert read(follower.new_curves()) == [("train/loss", [3], False)]


def test_it_goes_on_where_it_was_after_it_was_closed(
    store: RunStore, follower: StoreFollower
) -> None:
    add(store, "train/loss", 1)
    follower.open()
    assert len(read(follower.new_curves())) == 1
    follower.close()
    add(store, "train/loss", 2)
    follower.open()
    assert read(follower.new_curves()) == [("train/loss", [2], False)]


def test_after_a_rewind_every_curve_is_read_again(store: RunStore, follower: StoreFollower) -> None:
    add(store, "train/loss", 1, 2, 3)
    add(store, "validation/loss", 1)
    follower.open()
    assert len(read(follower.new_curves())) == 2
    store.rewind(2)
    store.commit()
    assert sorted(read(follower.new_curves())) == [
        ("train/loss", [1, 2], True),
        ("validation/loss", [1], True),
    ]


def test_only_what_is_wanted_is_read_and_earlier_events_are_skipped(
    store: RunStore, tmp_path: Path
) -> None:
    add(store, "train/loss", 1)
    add(store, "rank/0/step_time", 1)
    store.append(Notice("one"), 1.0)
    store.append(Notice("two"), 1.0)
    store.commit()
    with closing(StoreFollower(tmp_path, StoreCursor(1))) as follower:
        follower.open()
        assert [stored.event for stored in follower.new_events()] == [Notice("two")]
        curves = follower.new_curves(lambda series: series.startswith("train/"))
        assert [series for series, *_ in read(curves)] == ["train/loss"]
