"""The folders of Traindeck's data."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs

from engine.system.atomic_file import create_folders
from engine.system.ownership import is_own, is_private, make_private

HOME_VARIABLE = "TRAINDECK_HOME"
_NUMBER = re.compile(r"[1-9]\d*", re.ASCII)


def home() -> Path:
    """Return the data folder: `$TRAINDECK_HOME`, or the platform's folder for user data."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(platformdirs.user_data_dir("traindeck", appauthor=False))


def runs_folder() -> Path:
    """Return the folder that contains the run folders."""
    return home() / "runs"


def trash_folder() -> Path:
    """Return the folder of the deleted runs."""
    return home() / "trash"


def run_folder(run_id: str) -> Path:
    """Return the folder of the run `run_id`, which need not exist."""
    return runs_folder() / run_id


def create_run_folder() -> Path:
    """Create the folder of a new run, for its owner only; its name is the next number.

    Raises OSError, also if `runs_folder()` belongs to another user.
    """
    runs = runs_folder()
    create_folders(runs)
    make_private(runs)
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
    """Return the file to which the worker `rank` writes the stacks of its threads."""
    return folder / "logs" / f"stacks-rank{rank}.txt"


def workers_lock(folder: Path) -> Path:
    """Return the file that each worker of the run in `folder` holds while it lives."""
    return folder / "workers.lock"


def helper_stacks_file(stacks: Path, pid: int) -> Path:
    """Return the stacks file of process `pid`, which the worker with the file `stacks` started."""
    return stacks.with_stem(f"{stacks.stem}-helper{pid}")


def run_ids() -> list[str]:
    """Return the ids of all runs, newest first, without folders of other users."""
    return sorted(_numbered(runs_folder()), key=int, reverse=True)


def is_run(run_id: str) -> bool:
    """Whether there is a run `run_id`; faster than `run_ids`."""
    return bool(_NUMBER.fullmatch(run_id)) and run_folder(run_id).is_dir()


def trashed_ids() -> list[str]:
    """Return the ids of all runs in the trash, newest first."""
    return sorted(_numbered(trash_folder()), key=int, reverse=True)


def _numbered(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    found = [entry for entry in folder.iterdir() if _NUMBER.fullmatch(entry.name)]
    if not is_private(folder):
        found = [entry for entry in found if entry.exists() and is_own(entry)]
    return [entry.name for entry in found]
