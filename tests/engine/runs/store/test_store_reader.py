"""Reading a run's store, live or finished."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.messages.events import Paused, Resumed
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME, RunStore
from engine.runs.store.store_reader import RunReader
from tests.support.events import losses

SERIES = "train/loss"


def write(store: RunStore, values: list[float]) -> None:
    store.append(losses(values), 1.0)
    store.commit()


def test_where_there_is_no_store_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        RunReader(tmp_path)
    assert not (tmp_path / FILE_NAME).exists(), "looking must not create one"


def test_a_store_that_is_being_created_is_no_store_yet(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch()
    with pytest.raises(sqlite3.OperationalError):
        RunReader(tmp_path)


def test_a_schema_whose_damage_cannot_be_quoted_is_an_sqlite_error_too(tmp_path: Path) -> None:
    with closing(RunStore(tmp_path)):
        pass
    file = tmp_path / FILE_NAME
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"KEY CHECK", b"KEY \xe4HECK"))
    with pytest.raises(sqlite3.DatabaseError, match="can't decode"):
        RunReader(tmp_path)


def test_a_damaged_store_is_an_sqlite_error(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database, but long enough to be looked at" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        RunReader(tmp_path)


def test_a_reader_cannot_write(reader: RunReader) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM event")


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "100% of ä? #1"
    folder.mkdir()
    with closing(RunStore(folder)) as store:
        store.append(Paused(1), 1.0)
    with RunReader(folder) as reader:
        assert reader.status().state is RunState.PAUSED


def test_events_are_read_from_where_one_stopped(store: RunStore, reader: RunReader) -> None:
    store.append(Paused(1), 10.0)
    store.append(Resumed(1), 20.0)
    store.commit()
    assert [stored.event for stored in reader.events_after(0)] == [Paused(1), Resumed(1)]
    assert reader.events_after(1) == [(2, 20.0, Resumed(1))]
    assert reader.events_after(2) == []
    assert reader.last_seq() == 2


def test_points_are_read_from_where_one_stopped(store: RunStore, reader: RunReader) -> None:
    write(store, [1.0, 2.0, 3.0])
    curve = reader.points_after(SERIES, 1)
    assert curve.step.tolist() == [2, 3]
    assert curve.value.tolist() == [2.0, 3.0]
    assert curve.count == 3
    assert len(reader.points_after(SERIES, curve.count).step) == 0


def test_an_unknown_series_is_empty(reader: RunReader) -> None:
    for curve in (reader.history("nothing"), reader.points_after("nothing", 0)):
        assert curve.count == len(curve.step) == len(curve.time) == len(curve.value) == 0


@pytest.mark.parametrize("count", [1, 50, 99, 100])
def test_a_short_history_is_exact(count: int, store: RunStore, reader: RunReader) -> None:
    values = [math.sin(k) for k in range(count)]
    write(store, values)
    curve = reader.history(SERIES, most=100)
    assert curve.step.tolist() == list(range(1, count + 1))
    assert curve.value.tolist() == values
    assert curve.count == count


@pytest.mark.parametrize("count", [101, 256, 1000, 4095, 4096, 4097, 20_000])
def test_a_long_history_is_small_and_complete(
    count: int, store: RunStore, reader: RunReader
) -> None:
    values = [math.sin(0.01 * k) for k in range(count)]
    write(store, values)
    curve = reader.history(SERIES, most=100)
    assert len(curve.step) <= 100 + 4 * 2 * 31, "a hundred, and the open ends of four levels"
    assert curve.count == count
    assert curve.step[0] == 1
    assert curve.step[-1] == count, "the newest points are shown as they are"
    assert np.all(np.diff(curve.step) >= 0)
    assert (curve.value.min(), curve.value.max()) == (min(values), max(values))


def test_what_a_rough_curve_stands_for_adds_up_to_all_points(
    store: RunStore, reader: RunReader
) -> None:
    values = np.random.default_rng(0).exponential(size=30_000)
    write(store, values.tolist())
    assert reader.history(SERIES, most=30_000).statistics is None
    for curve in (reader.history(SERIES, most=100), reader.overview_after(SERIES, 0)):
        statistics = curve.statistics
        assert statistics is not None
        assert len(statistics.mean) == len(statistics.size) == len(curve.step)
        assert statistics.size.sum() == curve.count
        assert statistics.mean @ statistics.size == pytest.approx(values[: curve.count].sum())
    part = reader.window(SERIES, 1000, 20_000, most=500)
    assert part.statistics is not None
    assert (
        part.statistics.mean @ part.statistics.size / part.statistics.size.sum()
        == pytest.approx(1, abs=0.05)
    )


def test_a_hundred_thousand_points_keep_every_spike(store: RunStore, reader: RunReader) -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    spikes = {7: 50.0, 31_415: -60.0, 65_535: 70.0, 99_998: 80.0}
    for place, value in spikes.items():
        values[place] = value
    values[1000:3000] = np.nan
    write(store, values.tolist())
    curve = reader.history(SERIES)
    assert curve.statistics is not None
    assert len(curve.statistics.mean) == len(curve.statistics.size) == len(curve.step)
    assert len(curve.step) <= 20_000 + 200
    assert curve.count == 100_000
    for place, value in spikes.items():
        where = curve.step[curve.value == value][0]
        assert where <= place + 1 < where + 16**3
    assert np.isnan(curve.value).any(), "a gap stays a gap"


def test_history_and_the_points_after_it_make_the_whole_curve(
    store: RunStore, reader: RunReader
) -> None:
    write(store, [1.0] * 1000)
    curve = reader.history(SERIES, most=100)
    store.append(losses([5.0, 6.0], first_step=1001), 1.0)
    store.commit()
    assert reader.points_after(SERIES, curve.count).value.tolist() == [5.0, 6.0]


def test_after_a_rewind_the_history_is_the_new_one(store: RunStore, reader: RunReader) -> None:
    write(store, [1.0] * 1000)
    store.rewind(500)
    store.append(losses([2.0] * 300, first_step=501), 1.0)
    store.commit()
    curve = reader.history(SERIES, most=100)
    assert curve.count == 800
    assert curve.value[curve.step > 500].tolist() == [2.0] * len(curve.value[curve.step > 500])
    assert curve.value.max() == 2.0


def test_single_points_that_are_no_numbers_stay_in_a_curve_of_blocks(
    store: RunStore, reader: RunReader
) -> None:
    values = [1.0] * 5000
    values[1233], values[3999] = math.nan, math.inf
    write(store, values)
    curve = reader.history(SERIES, most=100)
    assert len(curve.step) < 200
    assert curve.count == 5000
    assert np.all(np.diff(curve.step) >= 0)
    assert set(curve.step[~np.isfinite(curve.value)]) >= {1234, 4000}
    assert len(curve.time) == len(curve.step)


def test_places_without_a_number_come_from_an_index_not_from_a_scan(reader: RunReader) -> None:
    query = "SELECT step FROM point WHERE series = 1 AND value - value IS NULL AND +i < 9"
    plan = reader._connection.execute(f"EXPLAIN QUERY PLAN {query} ORDER BY step").fetchall()
    assert "INDEX not_finite" in str(plan)


def test_an_overview_goes_on_where_points_ended_and_misses_no_extreme(
    store: RunStore, reader: RunReader
) -> None:
    write(store, [float(k) for k in range(5)])
    known = reader.points_after(SERIES, 0).count
    values = [math.sin(k) for k in range(5, 200)]
    values[100] = 9.0
    values[60] = math.nan
    store.append(losses(values, first_step=6), 1.0)
    store.commit()
    curve = reader.overview_after(SERIES, known)
    assert curve.count == 200 // 16 * 16
    assert len(curve.step) < 60
    assert curve.step[0] == 6
    assert list(curve.step) == sorted(curve.step)
    assert np.nanmax(curve.value) == 9.0
    assert 66 in curve.step[np.isnan(curve.value)]
    rest = reader.overview_after(SERIES, curve.count)
    assert (rest.count, len(rest.step)) == (curve.count, 0), "its block is not whole yet"
    assert reader.overview_after("nothing", 0).count == 0


def test_a_relative_folder_is_read(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, [1.0])
    monkeypatch.chdir(tmp_path)
    with RunReader(Path()) as reader:
        assert reader.counts() == {SERIES: 1}
