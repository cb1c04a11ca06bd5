"""Deletes checkpoints that are no longer needed, after a new one was saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.runs import checkpoint_files
from engine.runs.checkpoint_files import CheckpointInfo

AUTOMATIC = frozenset({"steps", "minutes", "epochs"})


def retain(run_folder: Path, keep: int) -> None:
    """Delete old checkpoints, and take the kind `best` from those that no longer are.

    The newest `keep` automatic checkpoints are kept. Only rank 0 calls this. Raises OSError.
    """
    for info, kinds in changes(checkpoint_files.checkpoints(run_folder), keep):
        if kinds:
            checkpoint_files.set_kinds(info, kinds)
        else:
            checkpoint_files.remove(info.folder)


def changes(
    saved: Sequence[CheckpointInfo], keep: int
) -> list[tuple[CheckpointInfo, frozenset[str]]]:
    """Return the checkpoints of `saved` (in order of steps) that change, with their new kinds.

    One without a kind is to be deleted. The newest one is always kept, and so is one that never
    had a kind: an old version saved it.
    """
    found = []
    best = automatic = 0
    for info in reversed(saved):
        kinds = frozenset(info.manifest.kinds)
        best += "best" in kinds
        automatic += bool(kinds & AUTOMATIC)
        kept = kinds - {"best"} if best > 1 else kinds
        if automatic > keep and kept <= AUTOMATIC:
            kept = frozenset()
        if kept != kinds:
            found.append((info, kept))
    return found
