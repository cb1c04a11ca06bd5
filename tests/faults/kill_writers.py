"""The processes that `kills.py` kills: a writer of a store, and a writer of checkpoints."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

from engine.messages.events import EpochEnded, Metrics, Points
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.runs.store.run_store import RunStore

SERIES = ("train/loss", "validation/loss", "rank/0/memory")
FILE_BYTES = 200_000

Writer = Callable[[Path, Callable[[int], None]], None]
"""Writes to a folder for ever; acknowledges each piece with a number once it is committed."""


def value(step: int) -> float:
    """The value of a step, in every series."""
    return step * 0.5


def write_points(folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Commit batches of points for ever, with a rewind every 50 batches; continue a used store."""
    store = RunStore(folder)
    step = store.status.step
    acknowledge(step)
    for batch in range(1_000_000):
        steps = list(range(step + 1, step + 1 + random.randint(8, 40)))
        step = steps[-1]
        points = [Points(series, steps, [value(s) for s in steps]) for series in SERIES]
        store.append(Metrics(1.0, 2.0, points), 2.0)
        store.append(EpochEnded(batch, step, {"validation/loss": value(step)}), 2.0)
        if batch % 50 == 49:
            step -= 7  # fewer steps than were done since the last acknowledgement
            store.rewind(step)
            store.append(EpochEnded(batch, step, {}), 2.0)
        store.commit()
        acknowledge(step)


def write_checkpoints(folder: Path, acknowledge: Callable[[int], None]) -> None:
    """Save checkpoints for ever, after the existing ones.

    Keep the newest three, and mark the newest as the best.
    """
    checkpoint_files.remove_unfinished(folder)
    for step in range(max(checkpoint_files.folders(folder), default=0) + 1, 1_000_000):
        save(folder, step)
        acknowledge(step)
        for old in checkpoint_files.checkpoints(folder)[:-3]:
            checkpoint_files.remove(old.folder)
        checkpoint_files.add_kinds(
            checkpoint_files.final_folder(folder, step), ["best"], {"loss": 1 / step}
        )


def save(folder: Path, step: int) -> None:
    """One checkpoint of two files."""
    temporary = checkpoint_files.begin(folder, step)
    (temporary / "tensors").mkdir()
    (temporary / "tensors" / "shard").write_bytes(content(step))
    (temporary / "rank0").write_bytes(content(step)[:100])
    checkpoint_files.publish(
        folder, Position(step=step), strategy="kills", replicas=1, batch_size=8, parameters=1
    )


def content(step: int) -> bytes:
    """What the large file of a checkpoint holds."""
    return hashlib.sha256(str(step).encode()).digest() * (FILE_BYTES // 32)
