"""Records what the workers of the last attempt could not tell their supervisor: it was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.messages.events import CheckpointSaved, Event
from engine.runs import unrecorded_events
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import CheckpointDamaged
from engine.runs.run_state import RunStatus
from engine.supervisor.message_validation import is_valid


def record_unrecorded(
    folder: Path, status: RunStatus, append: Callable[[Event, float], None]
) -> None:
    """Append the events that the workers of the run in `folder` have left beside a checkpoint.

    `status` is the newest one. The next attempt begins after this, and so ignores the files.
    """
    steps = {status.checkpoint_step}
    is_orphaned = False
    for rank, (_, time, event) in unrecorded_events.read(folder, status.attempt, status.recorded):
        is_orphaned = True
        if is_valid(event, rank, rank + 1):
            append(event, time)
            if isinstance(event, CheckpointSaved):
                steps.add(event.step)
    if not is_orphaned:
        return
    # Workers that were killed in their last moment have not said that the checkpoint is complete.
    for step, checkpoint in checkpoint_files.folders(folder).items():
        if step <= max(steps):
            continue
        try:
            manifest = checkpoint_files.read_manifest(checkpoint)
        except CheckpointDamaged:
            continue
        saved = CheckpointSaved(
            str(checkpoint), step, manifest.position.epoch, manifest.bytes, seconds=0.0
        )
        append(saved, manifest.saved)
