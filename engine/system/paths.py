"""Where Traindeck keeps its data."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs

from engine.system.ownership import is_mine, is_mine_alone, keep_others_out

HOME_VARIABLE = "TRAINDECK_HOME"
_NUMBER = re.compile(r"[1-9]\d*", re.ASCII)


def home() -> Path:
    """`$TRAINDECK_HOME`, or the platform's folder for a user's data."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(platformdirs.user_data_dir("traindeck", appauthor=False))


def runs_folder() -> Path:
    """The folder that holds a folder for each run."""
    return home() / "runs"


def trash_folder() -> Path:
    """The folder that holds deleted runs until the trash is emptied."""
    return home() / "trash"


def run_folder(run_id: str) -> Path:
    """The folder of the run `run_id`, which need not exist."""
    return runs_folder() / run_id


def create_run_folder() -> Path:
    """Make the folder of a new run, readable by its owner only; its name is the next number.

    Raises OSError, also where the folder of all runs belongs to another user.
    """
    runs = runs_folder()
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    keep_others_out(runs)
    taken = _numbered(runs) + _numbered(trash_folder())  # a run in the trash may be restored
    number = max(map(int, taken), default=0)
    while True:
        number += 1
        folder = runs / str(number)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:  # another process starts a run at this moment
            continue
        (folder / "logs").mkdir()
        (folder / "checkpoints").mkdir()
        return folder


def stacks_file(folder: Path, rank: int) -> Path:
    """The file to which the worker `rank` writes the stacks of its threads."""
    return folder / "logs" / f"stacks-rank{rank}.txt"


def helper_stacks_file(stacks: Path, pid: int) -> Path:
    """The same for the process `pid` that a worker has started; `stacks` is the worker's file."""
    return stacks.with_stem(f"{stacks.stem}-helper{pid}")


def run_ids() -> list[str]:
    """The ids of all runs, newest first, without folders that belong to another user."""
    return sorted(_numbered(runs_folder()), key=int, reverse=True)


def is_run(run_id: str) -> bool:
    """Whether there is a run `run_id`; faster than `run_ids`."""
    return bool(_NUMBER.fullmatch(run_id)) and run_folder(run_id).is_dir()


def trashed_ids() -> list[str]:
    """The ids of all runs in the trash, newest first."""
    return sorted(_numbered(trash_folder()), key=int, reverse=True)


def _numbered(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    found = [entry for entry in folder.iterdir() if _NUMBER.fullmatch(entry.name)]
    if not is_mine_alone(folder):
        found = [entry for entry in found if entry.exists() and is_mine(entry)]
    return [entry.name for entry in found]
