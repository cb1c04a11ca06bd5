"""Which checkpoints stay when a new one was saved, and the end of the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.runs import checkpoint_files
from engine.runs.checkpoint_files import CheckpointInfo

AUTOMATIC = frozenset({"steps", "minutes", "epochs"})


def retain(run_folder: Path, keep: int) -> None:
    """Delete what need not be kept, and take the kind from those that are no longer the best.

    `keep` is how many automatic checkpoints stay. Called by rank 0. Raises OSError.
    """
    for info, kinds in changes(checkpoint_files.checkpoints(run_folder), keep):
        if kinds:
            checkpoint_files.set_kinds(info, kinds)
        else:
            checkpoint_files.remove(info.folder)


def changes(
    saved: Sequence[CheckpointInfo], keep: int
) -> list[tuple[CheckpointInfo, frozenset[str]]]:
    """What is to change about `saved` (by step): each with the kinds that it keeps.

    One without a kind left is to go. The newest one always stays, and so does one that never had
    a kind: it is older than the kinds are.
    """
    found = []
    best = automatic = 0
    for info in reversed(saved):
        kinds = frozenset(info.manifest.kinds)
        best += "best" in kinds
        automatic += bool(kinds & AUTOMATIC)
        left = kinds - {"best"} if best > 1 else kinds
        if automatic > keep and left <= AUTOMATIC:
            left = frozenset()
        if left != kinds:
            found.append((info, left))
    return found
