"""The next attempt records exactly what the workers of the last one could not tell."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.messages.events import CheckpointSaved, Event, Notice, Points, TrainingEnded
from engine.messages.events import Metrics as Batch
from engine.runs import unrecorded_events
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.runs.run_state import RunStatus
from engine.runs.unrecorded_events import NumberedEvent
from engine.supervisor.unrecorded import record_unrecorded
from tests.support.events import losses


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A complete checkpoint of step 7, saved at the end of epoch 2."""
    checkpoint_files.begin(tmp_path, 7)
    return checkpoint_files.publish(
        tmp_path, Position(2, 0, 7), strategy="s", replicas=2, batch_size=4, parameters=1
    ).folder


def recorded(folder: Path, status: RunStatus) -> list[tuple[Event, float]]:
    found: list[tuple[Event, float]] = []
    record_unrecorded(folder, status, lambda event, time: found.append((event, time)))
    return found


def test_events_that_the_store_has_are_left_out_and_the_others_come_by_time(
    tmp_path: Path, checkpoint: Path
) -> None:
    saved = CheckpointSaved(str(checkpoint), 7, 2, 9, 0.5)
    first, second = losses([1.0, 0.5]), losses([0.25], first_step=3)
    of_rank_1 = Batch(1.0, 2.0, [Points("rank/1/x", [3], [1.0])])
    unrecorded_events.write(
        checkpoint,
        3,
        0,
        [
            NumberedEvent(4, 10.0, first),
            NumberedEvent(5, 30.0, second),
            NumberedEvent(6, 20.0, saved),  # the clock was set back
            NumberedEvent(7, 40.0, TrainingEnded(7, completed=False)),
        ],
    )
    unrecorded_events.write(checkpoint, 3, 1, [NumberedEvent(1, 25.0, of_rank_1)])
    status = RunStatus(attempt=3, recorded={0: 4})
    assert recorded(tmp_path, status) == [
        (of_rank_1, 25.0),
        (second, 30.0),
        (saved, 20.0),
        (TrainingEnded(7, completed=False), 40.0),
    ]
    assert recorded(tmp_path, msgspec.structs.replace(status, attempt=4)) == []


def test_what_no_worker_may_say_is_not_recorded_and_a_lost_checkpoint_event_is_replaced(
    tmp_path: Path, checkpoint: Path
) -> None:
    events = [
        NumberedEvent(1, 10.0, Notice("of another rank", rank=5)),
        NumberedEvent(2, 11.0, losses([1.0])),
    ]
    unrecorded_events.write(checkpoint, 1, 0, events)
    (points, _), (saved, time) = recorded(tmp_path, RunStatus(attempt=1))
    manifest = checkpoint_files.read_manifest(checkpoint)
    assert points == losses([1.0])
    assert saved == CheckpointSaved(str(checkpoint), 7, 2, manifest.bytes, 0.0)
    assert time == manifest.saved
    status = RunStatus(attempt=1, recorded={0: 2})
    assert recorded(tmp_path, status) == []
