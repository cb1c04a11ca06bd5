"""How a save that gets on is told from one that hangs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from engine.files.save_progress import TimeToSave, mark, save_progress


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_bytes_marks_and_the_end_of_a_save_are_progress(tmp_path: Path) -> None:
    complete, unfinished = tmp_path / "step-00000001", tmp_path / "step-00000002.tmp"
    seen = [save_progress(tmp_path)]
    for folder in (complete, unfinished):
        (folder / "tensors").mkdir(parents=True)
    os.utime(unfinished, (1.0, 1.0))
    seen.append(save_progress(tmp_path))
    (unfinished / "tensors" / "shard").write_bytes(bytes(10))
    seen.append(save_progress(tmp_path))
    mark(unfinished)
    seen.append(save_progress(tmp_path))
    assert len(set(seen)) == 4
    (complete / "shard").write_bytes(bytes(10))
    assert save_progress(tmp_path) == seen[-1]
    shutil.rmtree(unfinished)
    mark(unfinished)  # by a rank that is somewhat late
    assert save_progress(tmp_path) == seen[0]


def test_the_time_begins_anew_whenever_the_save_has_got_on() -> None:
    clock, place = Clock(), 7
    limit = TimeToSave(30.0, lambda: place, clock)
    for _ in range(20):
        clock.now += 29.0
        place += 1
        assert limit.left() == 30.0
    clock.now += 29.0
    assert limit.left() == 1.0
    clock.now += 1.0
    assert limit.left() == 0.0
