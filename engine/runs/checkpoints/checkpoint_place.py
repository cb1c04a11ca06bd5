"""Where the checkpoints of a run lie: in its folder, or in one that the machines of a run share.

In a shared folder, a run has a place of its own, and `checkpoints` in the run folder is a link to
it. So whoever reads or writes checkpoints needs to know nothing of it.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from pathlib import Path

from engine.files.atomic_file import sync_to_disk
from engine.files.ownership import is_own_folder
from engine.files.regular_file import read_regular
from engine.processes.machine import this_machine
from engine.runs.checkpoints.checkpoint_files import FOLDER
from engine.system import paths

_PREFIX = "traindeck-"

_OWNER = "owner.txt"
"""The data folder of the run: a copy of that folder must not delete what its links lead to."""

_LONGEST_PATH = 2**16


class PlaceAway(OSError):
    """The checkpoints of a run cannot be reached now; the text is a clause that says what to do."""


def make(run_folder: Path, shared_folder: Path) -> Path:
    """Make a place for the run in `shared_folder`; `link` leads to it. Raises OSError."""
    name = f"{_PREFIX}{this_machine().host}-{run_folder.name}-{secrets.token_hex(4)}"
    place = shared_folder / name
    place.mkdir(mode=0o700)
    try:
        (place / _OWNER).write_text(_owner())
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return place


def link(run_folder: Path, place: Path) -> None:
    """Let the checkpoints of the run lie in `place` from now on; it must have none. OSError."""
    folder = run_folder / FOLDER
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    folder.symlink_to(place, target_is_directory=True)
    sync_to_disk(run_folder)


def linked(run_folder: Path) -> Path | None:
    """Return the place of the run in a shared folder, also if it is not there; None: it has none.

    Raises OSError.
    """
    folder = run_folder / FOLDER
    if not folder.is_symlink():
        return None
    target = folder.readlink()
    return target if target.is_absolute() and target.name.startswith(_PREFIX) else None


def has_own(run_folder: Path) -> bool:
    """Whether checkpoints lie in the run folder itself. Raises OSError."""
    folder = run_folder / FOLDER
    return folder.is_symlink() or (folder.exists() and any(folder.iterdir()))


def check(run_folder: Path) -> None:
    """Raise PlaceAway if the checkpoints are linked to a folder that is not there, or OSError."""
    folder = run_folder / FOLDER
    if folder.is_symlink() and not folder.exists():
        target = folder.readlink()
        raise PlaceAway(
            f"{target}, where the checkpoints of run {run_folder.name} lie, is not there: mount "
            f"{target.parent}, or bring the folder back"
        )


def remove(run_folder: Path) -> None:
    """Delete the place of a run that is deleted for good. Raises OSError, such as PlaceAway."""
    place = linked(run_folder)
    if place is None:
        return
    check(run_folder)
    if is_own_folder(place) and _is_owner(place):
        shutil.rmtree(place)


def _owner() -> str:
    return str(paths.home().resolve())


def _is_owner(place: Path) -> bool:
    try:
        return read_regular(place / _OWNER, _LONGEST_PATH).decode() == _owner()
    except (FileNotFoundError, ValueError):
        return False
