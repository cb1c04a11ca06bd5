"""A recipe that invents series without end keeps a run whose curves and status can be read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from engine.messages.events import (
    EpochEnded,
    Event,
    Metrics,
    Notice,
    Points,
    Rewound,
    Shrunk,
    WorkerFailed,
)
from engine.runs.store import store_reader
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.supervisor import message_validation
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.message_validation import SeriesLimit, is_valid
from tests.support.events import losses
from tests.support.sentences import sentence


def invented(first: int, count: int) -> Metrics:
    points = [Points(f"train/step {n}", [n], [0.5]) for n in range(first, first + count)]
    return Metrics(1.0, 2.0, points)


def record(folder: Path, *events: Event) -> None:
    """Record `events` as a supervisor does that resumes the run, and then ends."""
    with closing(RunStore(folder)) as store:
        buffer = BufferedStore(folder, store)
        for event in events:
            buffer.append(event)
        assert buffer.close()


def notices(folder: Path) -> list[str]:
    with RunReader(folder) as reader:
        events = [stored.event for stored in reader.events_after(0)]
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_new_name_at_each_step_leaves_the_curves_readable(tmp_path: Path) -> None:
    many = store_reader.MOST_SERIES + 1
    record(tmp_path, losses([1.0]), *(invented(n, 1000) for n in range(0, many, 1000)))
    with RunReader(tmp_path) as reader:
        counts = reader.counts()
        assert len(counts) == message_validation.MOST_SERIES < store_reader.MOST_SERIES / 4
        assert reader.history("train/step 9998").value.tolist() == [0.5]
    [notice] = notices(tmp_path)
    assert "has 10,000 series" in notice
    assert "'train/step 9999'" in notice


def test_the_limit_counts_the_series_of_earlier_attempts_and_the_known_ones_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_validation, "MOST_SERIES", 5)
    record(tmp_path, losses([1.0]), invented(0, 3))
    assert notices(tmp_path) == []
    mixed = Metrics(2.0, 3.0, [*losses([0.5], first_step=2).points, *invented(3, 2).points])
    record(tmp_path, mixed, invented(5, 1), losses([0.25], first_step=3))
    with RunReader(tmp_path) as reader:
        assert reader.counts() == {
            "train/loss": 3,
            **{f"train/step {number}": 1 for number in range(4)},
        }
    [notice] = notices(tmp_path)
    assert "'train/step 4'" in notice


def test_the_status_takes_no_metric_of_a_series_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_validation, "MOST_SERIES", 1)
    limit, metrics = SeriesLimit([]), {"validation/loss": 0.5, "validation/7": 0.25}
    ended, notice = limit.admit(EpochEnded(1, 10, metrics))
    assert ended == EpochEnded(1, 10, {"validation/loss": 0.5})
    assert isinstance(notice, Notice)
    [rewound] = limit.admit(Rewound(10, "c", 1, metrics))
    assert rewound == Rewound(10, "c", 1, {"validation/loss": 0.5})


def test_long_names_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_validation, "MOST_CHARACTERS", 1000)
    limit = SeriesLimit(["a" * 900])
    kept, notice = limit.admit(Metrics(1.0, 2.0, [Points("b" * 101, [1], [1.0])]))
    assert kept == Metrics(1.0, 2.0, [])
    assert isinstance(notice, Notice)
    assert sentence("very-long-names-together") in notice.text
    assert f"'{'b' * 100}…'" in notice.text
    known = Metrics(1.0, 2.0, [Points("a" * 900, [2], [1.0]), Points("c" * 100, [1], [1.0])])
    assert list(limit.admit(known)) == [known]


@pytest.mark.parametrize(
    ("rank", "accumulation", "valid"), [(1, 2, True), (0, 2, False), (1, -2, False)]
)
def test_a_worker_tells_of_its_own_memory_only(rank: int, accumulation: int, valid: bool) -> None:
    shrunk = Shrunk(rank, 3, "", accumulation, asked=1, batch_size=8, replicas=2)
    failed = WorkerFailed(1, "", "", "", lost_peer=False, shrunk=shrunk)
    assert [is_valid(message, 1, 2) for message in (shrunk, failed)] == [valid, valid]
