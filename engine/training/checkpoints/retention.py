"""Deletes checkpoints that are no longer needed, after a new one was saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo

AUTOMATIC = frozenset({"steps", "minutes", "epochs"})


def retain(run_folder: Path, keep: int) -> None:
    """Delete old checkpoints, and remove the kind `best` from all but the best one.

    Keep the newest `keep` automatic checkpoints. Only rank 0 calls this. Raises OSError.
    """
    for info, kinds in kind_changes(checkpoint_files.checkpoints(run_folder), keep):
        if kinds:
            checkpoint_files.set_kinds(info, kinds)
        else:
            checkpoint_files.remove(info.folder)


def kind_changes(
    saved: Sequence[CheckpointInfo], keep: int
) -> list[tuple[CheckpointInfo, frozenset[str]]]:
    """Return the checkpoints of `saved` (in order of steps) that change, with their new kinds.

    A checkpoint with no new kind must be deleted. The newest one never changes, and neither does
    one that had no kind before: an old version saved it.
    """
    changed = []
    best = automatic = 0
    for info in reversed(saved):
        kinds = frozenset(info.manifest.kinds)
        best += "best" in kinds
        automatic += bool(kinds & AUTOMATIC)
        new_kinds = kinds - {"best"} if best > 1 else kinds
        if automatic > keep and new_kinds <= AUTOMATIC:
            new_kinds = frozenset()
        if new_kinds != kinds:
            changed.append((info, new_kinds))
    return changed
