"""Writing a run's store: when data is on disk, what is kept, and how it is rewound."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.messages.events import (
    AttemptStarted,
    EpochEnded,
    Event,
    Metrics,
    Notice,
    Paused,
    Points,
    Progress,
)
from engine.runs.run_state import RunState, RunStatus, fold
from engine.runs.store.downsampling import FACTOR
from engine.runs.store.point_tables import read_blocks
from engine.runs.store.run_store import FILE_NAME, RunStore
from engine.runs.store.store_reader import RunReader
from tests.support.events import EXAMPLES, NOT_NUMBERS, losses


def reopened(store: RunStore, folder: Path) -> RunStore:
    store.close()
    return RunStore(folder)


def test_a_new_store_has_a_status_for_readers_at_once(reader: RunReader) -> None:
    assert reader.status() == RunStatus()


def test_nothing_is_visible_before_commit(store: RunStore, reader: RunReader) -> None:
    store.append(Paused(3), 1.0)
    store.append(losses([0.5]), 1.0)
    assert (reader.last_seq(), reader.counts(), reader.status()) == (0, {}, RunStatus())
    store.commit()
    assert (reader.last_seq(), reader.counts()) == (1, {"train/loss": 1})
    assert reader.status().state is RunState.PAUSED


def test_an_idle_commit_writes_nothing(store: RunStore, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as watcher:
        (before,) = watcher.execute("PRAGMA data_version").fetchone()
        store.commit()
        assert watcher.execute("PRAGMA data_version").fetchone() == (before,)
        store.append(Paused(1), 1.0)
        store.commit()
        assert watcher.execute("PRAGMA data_version").fetchone() != (before,)


def test_what_was_not_committed_is_gone_after_a_crash(tmp_path: Path) -> None:
    crashed = RunStore(tmp_path)
    crashed.append(Paused(1), 1.0)
    crashed.commit()
    crashed.append(Paused(2), 2.0)
    crashed._connection.close()  # as a killed process does
    with closing(RunStore(tmp_path)) as store:
        assert store.last_seq() == 1


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_comes_back_as_it_was(event: Event, store: RunStore, reader: RunReader) -> None:
    store.append(event, 12.5)
    store.commit()
    if isinstance(event, Metrics | Progress):  # kept as points, and in the status
        assert reader.events_after(0) == []
    else:
        assert reader.events_after(0) == [(1, 12.5, event)]
    assert reader.status() == fold(RunStatus(), event, 12.5)


def test_a_diverged_run_stays_readable(store: RunStore, reader: RunReader) -> None:
    """JSON has no NaN: a status or event that was written as JSON could not be read again."""
    store.append(losses([math.nan]), 1.0)
    store.append(EpochEnded(1, 1, {"validation/loss": math.inf}), 1.0)
    store.commit()
    metrics = reader.status().metrics
    assert math.isnan(metrics["train/loss"])
    assert metrics["validation/loss"] == math.inf
    [stored] = reader.events_after(0)
    assert stored.event == EpochEnded(1, 1, {"validation/loss": math.inf})


def test_nan_and_infinities_are_values(store: RunStore, reader: RunReader) -> None:
    store.append(losses(NOT_NUMBERS), 1.0)
    store.commit()
    np.testing.assert_array_equal(reader.points_after("train/loss", 0).value, NOT_NUMBERS)


def test_the_points_of_a_batch_share_its_time(store: RunStore, reader: RunReader) -> None:
    store.append(losses([1.0, 2.0, 3.0, 4.0]), 500.0)
    store.commit()
    assert reader.points_after("train/loss", 0).time.tolist() == [125.0, 150.0, 175.0, 200.0]


def test_an_empty_batch_of_points_is_no_point(store: RunStore) -> None:
    store.append(Metrics(1.0, 2.0, [Points("train/loss", [], [])]), 1.0)
    store.append(losses([5.0]), 1.0)
    store.commit()
    assert store.status.metrics == {"train/loss": 5.0}


def test_a_reopened_store_knows_status_and_events(store: RunStore, tmp_path: Path) -> None:
    store.append(Paused(3), 1.0)
    store.append(Notice("Hello."), 2.0)
    status = store.status
    with closing(reopened(store, tmp_path)) as again:
        assert again.status == status
        assert again.last_seq() == 2


def levels(folder: Path, series: str) -> list[list[list[float]]]:
    """Every stored block of a series as rows, level by level; level 0 are the points."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        (id,) = connection.execute("SELECT id FROM series WHERE name = ?", (series,)).fetchone()
        found = []
        while True:
            blocks = read_blocks(connection, id, len(found), 0)
            if not len(blocks.step):
                return found
            found.append(np.array(blocks).T.tolist())


def expected_levels(values: list[float]) -> list[list[list[float]]]:
    """What `levels` should find for values at steps 1, 2, ... , without the times."""
    found, size = [], 1
    while len(values) // size:
        found.append(
            [
                [begin + 1, min(values[begin : begin + size]), max(values[begin : begin + size])]
                for begin in range(0, len(values) // size * size, size)
            ]
        )
        size *= FACTOR
    return found


def without_times(found: list[list[list[float]]]) -> list[list[list[float]]]:
    return [[[step, low, high] for step, _, low, high, _ in rows] for rows in found]


def wave(count: int) -> list[float]:
    return [math.sin(0.1 * k) for k in range(count)]


@pytest.mark.parametrize("cut", [1, 15, 16, 17, 255, 256, 257, 300])
def test_the_pyramid_goes_on_where_it_was_after_reopening(
    cut: int, store: RunStore, tmp_path: Path
) -> None:
    values = wave(600)
    store.append(losses(values[:cut]), 1.0)
    with closing(reopened(store, tmp_path)) as again:
        again.append(losses(values[cut:], first_step=cut + 1), 2.0)
    assert without_times(levels(tmp_path, "train/loss")) == expected_levels(values)


def means(folder: Path) -> list[list[float]]:
    return [[row[-1] for row in rows] for rows in levels(folder, "train/loss")]


@pytest.mark.parametrize("cut", [1, 16, 257, 300])
def test_blocks_have_the_mean_of_their_points_also_after_reopening(
    cut: int, store: RunStore, tmp_path: Path
) -> None:
    values = wave(600)
    store.append(losses(values[:cut]), 1.0)
    with closing(reopened(store, tmp_path)) as again:
        again.append(losses(values[cut:], first_step=cut + 1), 2.0)
    for level, found in enumerate(means(tmp_path)):
        size = FACTOR**level
        by_hand = np.reshape(values[: 600 // size * size], (-1, size)).mean(axis=1)
        np.testing.assert_allclose(found, by_hand, atol=1e-12)


def test_a_store_from_before_the_means_is_read_and_goes_on(store: RunStore, tmp_path: Path) -> None:
    store.append(losses([0.0, 4.0] * 16), 1.0)
    store.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as old:
        old.execute("ALTER TABLE block DROP COLUMN mean")
        old.commit()
    assert means(tmp_path)[1] == [2.0, 2.0], "the middle, for want of something better"
    with closing(RunStore(tmp_path)) as again:
        again.append(losses([1.0] * 15 + [9.0], first_step=33), 2.0)
    assert means(tmp_path)[1] == [2.0, 2.0, 1.5]


@pytest.mark.parametrize("reopen", [False, True], ids=["same store", "reopened"])
@pytest.mark.parametrize("cut", [0, 1, 15, 16, 17, 255, 256, 257, 300, 600, 999])
def test_after_a_rewind_the_new_way_replaces_the_old(
    cut: int, reopen: bool, store: RunStore, tmp_path: Path
) -> None:
    old, new = wave(600), [7.0 + k for k in range(400)]
    store.append(losses(old), 1.0)
    store.rewind(cut)
    if reopen:
        store = reopened(store, tmp_path)
    store.append(losses(new, first_step=cut + 1), 2.0)
    store.close()
    found = without_times(levels(tmp_path, "train/loss"))
    kept = old[:cut]
    assert [row[1] for row in found[0]] == kept + new
    first_steps = [row[0] for row in found[0]]
    by_hand = expected_levels(kept + new)
    assert [[row[1:] for row in rows] for rows in found] == [
        [row[1:] for row in rows] for rows in by_hand
    ]
    assert first_steps == sorted(first_steps)


def test_a_rewind_cuts_every_series_at_its_own_place(store: RunStore, reader: RunReader) -> None:
    store.append(losses(wave(10)), 1.0)
    store.append(Metrics(1.0, 1.0, [Points("validation/loss", [5, 10], [0.5, 0.4])]), 1.0)
    store.rewind(7)
    store.commit()
    assert reader.counts() == {"train/loss": 7, "validation/loss": 1}


def test_a_validation_that_is_still_to_come_is_not_there_twice(
    store: RunStore, reader: RunReader
) -> None:
    store.append(losses(wave(10)), 1.0)
    store.append(Metrics(1.0, 1.0, [Points("validation/loss", [5, 10], [0.5, 0.4])]), 1.0)
    store.rewind(10, validates_again=True)
    store.commit()
    assert reader.counts() == {"train/loss": 10, "validation/loss": 1}


def test_only_a_rewind_begins_a_new_generation(
    store: RunStore, reader: RunReader, tmp_path: Path
) -> None:
    store.append(losses([1.0]), 1.0)
    store.commit()
    before = reader.generation()
    store.rewind(0)
    store.commit()
    assert reader.generation() == before + 1
    with closing(reopened(store, tmp_path)) as again:
        again.append(losses([1.0]), 1.0)
        again.commit()
        assert reader.generation() == before + 1


def test_a_file_that_is_no_store_is_an_sqlite_error(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database, but long enough to be looked at" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        RunStore(tmp_path)


def test_a_copy_of_the_events_has_the_files_of_their_attempts(
    store: RunStore, tmp_path: Path
) -> None:
    for attempt, content in enumerate((b"first", b"first", b"third", b"first"), 1):
        store.append(AttemptStarted(attempt, 1, 1.0), 1.0)
        store.keep_file("spec.toml", content)
    store.commit()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        query = "SELECT attempt, body FROM file ORDER BY attempt"
        copies = [(1, b"first"), (3, b"third"), (4, b"first")]
        assert other.execute(query).fetchall() == copies, "it was put back"
        store.delete_events_after(2)
        store.commit()
        assert other.execute(query).fetchall() == [(1, b"first")]
