"""The folders of Traindeck's data."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from engine.files.atomic_file import write_atomically
from engine.files.ownership import NotPrivate, is_trusted, make_private_folder
from engine.files.regular_file import LARGEST_TOML, read_regular
from engine.processes.process import absolute_folder
from engine.system.folder_claim import claim

HOME_VARIABLE = "TRAINDECK_HOME"
_ENTRIES = (
    *("runs", "trash", "presets", "templates", "logs"),
    *("queue.json", "queue.lock", "index.sqlite", "window.ini"),
    *("environments", "environments.json", "environments.lock"),
    *("machines.toml", "machines.lock", "received", "planning", "fingerprints.key"),
    *("cluster.toml", "cluster-token", "cluster-node.json", "cluster.lock"),
    *("cluster-runs", "last-run"),
)
"""What lies in the data folder; other files there are of no concern to us."""

_STAGED = ".importing-"
_LAST_NUMBER = "last-run"
"""The file with the number of the newest run, which no other run gets when that one is gone."""

_NUMBER = re.compile(r"[1-9]\d*", re.ASCII)


class UnusableHome(OSError):
    """The data folder cannot be used; the text is a sentence."""


def home() -> Path:
    """Return the data folder: `$TRAINDECK_HOME`, or the platform's folder for user data."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return absolute_folder(chosen)
    import platformdirs  # what a worker in another environment need not have

    return Path(platformdirs.user_data_dir("traindeck", appauthor=False))


def prepare_home() -> str:
    """Create the data folder for its owner only; call this before anything reads or writes in it.

    Return a sentence if other users could write to it until now; else an empty text. Raises
    OSError: NotPrivate if the folder or something in it belongs to another user, UnusableHome if
    its name is no text, or if another machine uses it now.
    """
    folder = home()
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise UnusableHome(
            f"The data folder {os.fsencode(folder)!r} has a name that is not valid UTF-8, so specs "
            f"and messages cannot name its files: set {HOME_VARIABLE} to another folder."
        ) from None
    notice = _make_folder(folder)
    if host := claim(folder):
        raise UnusableHome(
            f"The data folder {folder} is in use on {host}, and two machines or containers must "
            f"not share one: end what runs there, or set {HOME_VARIABLE} to another folder here."
        )
    for name in _ENTRIES:
        entry = folder / name
        try:
            status = entry.lstat()
        except FileNotFoundError:
            continue
        if name in ("runs", "trash") and not entry.is_dir():
            raise _no_folder(entry)
        if not is_trusted(status):
            raise NotPrivate(
                f"{entry} belongs to another user, who could deceive you with it. "
                "Remove it, or set TRAINDECK_HOME to another folder of your own."
            )
    return notice


def private_folder(name: str) -> Path:
    """Create the folder `name` in the data folder if it is missing, for its owner only; return it.

    Raises OSError, as `prepare_home` does.
    """
    prepare_home()
    folder = home() / name
    _make_folder(folder)
    return folder


def _make_folder(folder: Path) -> str:
    """Do what `make_private_folder` does. Raises UnusableHome too."""
    try:
        return make_private_folder(folder)
    except (FileExistsError, NotADirectoryError):
        raise _no_folder(folder) from None


def _no_folder(folder: Path) -> UnusableHome:
    found = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    return UnusableHome(
        f"{folder} cannot be a folder for data, because {found} is none: remove it, or set "
        f"{HOME_VARIABLE} to another folder."
    )


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
    folder = _new_number()
    (folder / "logs").mkdir(mode=0o700)
    (folder / "checkpoints").mkdir(mode=0o700)
    return folder


def _new_number() -> Path:
    """Create the empty folder of a new run."""
    runs = private_folder("runs")
    taken = _numbered(runs) + _numbered(trash_folder())  # a run in the trash may be restored
    last = home() / _LAST_NUMBER
    with suppress(OSError, ValueError):
        taken.append(str(int(read_regular(last, LARGEST_TOML))))
    number = max(map(int, taken), default=0)
    while True:
        number += 1
        folder = runs / str(number)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:  # another process starts a run at this moment
            continue
        with suppress(OSError):  # a full disk: the next number is that of the folders alone
            write_atomically(last, f"{number}\n", mode=0o600)
        return folder


def stage_run_folder() -> Path:
    """Create a folder in which a run can be put together before it is one, for its owner only.

    `adopt_run_folder` makes it a run. Raises OSError.
    """
    return Path(tempfile.mkdtemp(prefix=_STAGED, dir=private_folder("runs")))


def adopt_run_folder(staged: Path) -> Path:
    """Make a staged folder a run, all at once; return its folder, whose name is the next number.

    Raises OSError.
    """
    for name in ("logs", "checkpoints"):
        (staged / name).mkdir(mode=0o700, exist_ok=True)
    folder = _new_number()
    try:
        staged.replace(folder)  # which is empty, and ours
    except OSError:
        folder.rmdir()
        raise
    return folder


def remove_staged(older_than: float) -> None:
    """Delete the staged folders that a killed program has left so many seconds ago."""
    for folder in runs_folder().glob(f"{_STAGED}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > older_than and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)


def log_file(folder: Path, rank: int) -> Path:
    """Return the file with stdout and stderr of the worker `rank`."""
    return folder / "logs" / f"rank{rank}.log"


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
    """Return the ids of all runs, newest first."""
    return sorted(_numbered(runs_folder()), key=int, reverse=True)


def is_run(run_id: str) -> bool:
    """Whether there is a run `run_id`; faster than `run_ids`."""
    if not _NUMBER.fullmatch(run_id):
        return False
    try:
        run_folder(run_id).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # the disk does not tell: who reads the run says so
        return True
    return True


def trashed_ids() -> list[str]:
    """Return the ids of all runs in the trash, newest first."""
    return sorted(_numbered(trash_folder()), key=int, reverse=True)


def _numbered(folder: Path) -> list[str]:
    """Return the names of the runs in `folder`."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return [name for name in os.listdir(folder) if _NUMBER.fullmatch(name)]  # noqa: PTH208
    return []
