"""The checkpoints of a script with calls: one file of plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traindeck._errors import TraindeckError
from traindeck._state import files

FORMAT = 2
"""The key `format` of a checkpoint; a reader refuses another one."""

Plain = dict[str, Any]


def write(run_folder: str, step: int, tree: Plain) -> None:
    """Write the unfinished checkpoint after `step`. Raises OSError."""
    folder = Path(run_folder, "checkpoints", f"step-{step:08d}.tmp")
    files.write(str(folder), tree)


def read(folder: str) -> Plain:
    """Return the checkpoint in `folder`. Raises TraindeckError if the calls did not save it."""
    found = files.read(folder)
    if found.get("format") != FORMAT or "kept" not in found:
        raise TraindeckError(
            f"The checkpoint {Path(folder).name} was not saved by this version's calls. "
            "Resume it with the version that it was saved with, or begin a new run."
        )
    return found
