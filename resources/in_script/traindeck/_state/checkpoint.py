"""The checkpoints of a script with calls: one part per rank, of plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traindeck._errors import TraindeckError
from traindeck._state import files
from traindeck._surroundings import Surroundings

FORMAT = 1
"""The key `format` of a part; a reader refuses a larger one."""

Plain = dict[str, Any]


def write(run_folder: str, rank: int, step: int, tree: Plain) -> None:
    """Write the part of `rank` of the unfinished checkpoint after `step`. Raises OSError."""
    folder = Path(run_folder, "checkpoints", f"step-{step:08d}.tmp")
    files.write(str(folder), rank, tree)


def read(own: Surroundings) -> Plain:
    """Return this rank's part of the checkpoint that the run resumes from.

    Raises TraindeckError if there is none, or if it was saved with other ranks.
    """
    first = files.read(own.checkpoint, 0)
    found = first if own.rank == 0 else files.read(own.checkpoint, own.rank)
    if found.get("format", 0) > FORMAT or "kept" not in found:
        raise TraindeckError(
            f"The checkpoint {Path(own.checkpoint).name} was not saved by this version's calls. "
            "Resume it with the version that it was saved with."
        )
    strategy, world = found["strategy"], found["world_size"]
    is_alone = world == own.world_size == 1
    if world != own.world_size or (strategy != own.strategy and not is_alone):
        raise TraindeckError(
            f"The checkpoint was saved by {_ranks(world)} of script/{strategy}, and this run has "
            f"{_ranks(own.world_size)} of script/{own.strategy}: their random numbers and their "
            "parts of the batches differ. Resume with the ranks that it was saved with."
        )
    if own.rank and strategy == "ddp":
        found["kept"] = first["kept"] | found["kept"]
    return found


def try_out(tree: Plain) -> None:
    """Raise TraindeckError if a checkpoint of `tree` could not be read again."""
    files.try_out(tree)


def _ranks(count: int) -> str:
    return "one process" if count == 1 else f"{count} ranks"
