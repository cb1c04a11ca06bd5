"""Points that were merged while they waited are stored as if they had not waited."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from engine.messages.events import Metrics, Points
from engine.messages.merged_metrics import LEAST_OF_SERIES, MOST_MERGED, MergedMetrics
from engine.runs.store.run_store import RunStore
from tests.support.events import NOT_NUMBERS, losses


def rows(folder: Path, events: list[Metrics]) -> list[list[tuple[object, ...]]]:
    """The tables of points of a store that holds `events`."""
    folder.mkdir()
    with closing(RunStore(folder)) as store:
        for event in events:
            store.append(event, 1.0)
        store.commit()
        tables = ("SELECT * FROM series", "SELECT * FROM point", "SELECT * FROM block")
        return [store._connection.execute(table).fetchall() for table in tables]


def random_batches(rng: random.Random) -> list[Metrics]:
    """Batches of 1 to 40 steps; some series are in every second batch only."""
    events, step, now = [], 0, 1.7e9
    for number in range(60):
        begin, now = now, now + rng.random()
        steps = list(range(step + 1, step + 1 + rng.randint(1, 40)))
        step = steps[-1]
        points = [Points("train/loss", steps, [rng.gauss(0, 1) for _ in steps])]
        if number % 2:
            points.append(Points("rank/0/memory", [step], [float(rng.randrange(2**40))]))
            points.append(Points("empty", [], []))
        events.append(Metrics(begin, now, points))
    events.append(Metrics(now, now, [Points("validation/loss", [step] * 5, NOT_NUMBERS)]))
    return events


def test_the_store_holds_the_same_with_and_without_a_wait(tmp_path: Path) -> None:
    events = random_batches(random.Random(15))
    merged = MergedMetrics()
    assert all(merged.add(event) for event in events)
    assert merged.count == sum(len(p.steps) for event in events for p in event.points)
    assert rows(tmp_path / "merged", [merged.event()]) == rows(tmp_path / "single", events)


def test_points_that_waited_twice_keep_their_times(tmp_path: Path) -> None:
    events = random_batches(random.Random(16))
    worker, supervisor = MergedMetrics(), MergedMetrics()
    assert all(worker.add(event) for event in events)
    assert supervisor.add(worker.event())
    assert rows(tmp_path / "twice", [supervisor.event()]) == rows(tmp_path / "single", events)


def test_a_merged_event_stays_small_unless_there_are_many_series() -> None:
    few, many = MergedMetrics(), MergedMetrics()
    assert few.add(losses([0.0] * MOST_MERGED))
    assert not few.add(losses([0.0]))
    assert few.count == MOST_MERGED
    step = Metrics(1.0, 2.0, [Points(str(name), [1], [1.0]) for name in range(MOST_MERGED)])
    assert [many.add(step) for _ in range(LEAST_OF_SERIES + 1)] == [True] * LEAST_OF_SERIES + [
        False
    ]


def test_a_batch_that_is_too_large_stays_alone() -> None:
    merged = MergedMetrics()
    assert merged.add(losses([0.0] * 10 * MOST_MERGED)), "the first one is not divided"
    assert not merged.add(losses([0.0]))
