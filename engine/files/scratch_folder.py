"""A private folder for what the processes of one attempt would leave in the temporary folder.

Its owner removes it when they have ended, however they did. Its name is short: it holds sockets.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from engine.files.ownership import is_own_folder

_IN_MEMORY = Path("/dev/shm")  # a page of a disk may wait for it to be written
_PREFIX = "traindeck-run-"
_PAGE = 4096


def make() -> Path | None:
    """Make a folder, and the page that its processes share; None if the system has no room."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    except OSError:
        return None
    for page in _pages(folder):
        try:
            descriptor = os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError:
            continue
        try:
            os.write(descriptor, bytes(_PAGE))  # so that it has its place before it is mapped
            break
        except OSError:
            page.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return folder


def shared_page(folder: Path) -> Path | None:
    """Return the page of zeros that all processes may map; None if there is none."""
    return next((page for page in _pages(folder) if page.exists()), None)


def of_process(pid: int) -> list[Path]:
    """Return the folders that a process of this user has made, and not removed yet."""
    return [
        folder
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{pid}-*")
        if is_own_folder(folder)
    ]


def remove(folder: Path) -> None:
    """Remove what `make` has made, with all that lies in it. Raises nothing."""
    if not folder.name.startswith(_PREFIX):
        return  # the path that was given may lead elsewhere
    for page in _pages(folder):
        page.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _pages(folder: Path) -> list[Path]:
    return [_IN_MEMORY / folder.name, folder / "page"]
