"""Files that a command brings here: where they may be written, and how far a download is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.cli.output import Refused
from engine.cli.progress import progress_bar
from engine.interface.transfers import DownloadFailed


def check_target(target: Path) -> None:
    """Refuse a new file or folder that could not be written later. Raises Refused."""
    target = target.expanduser().absolute()
    if os.path.lexists(target):
        raise Refused(f"{target} exists already: choose another name, or remove it.")
    if not os.access(target.parent, os.W_OK):
        raise Refused(f"{target} cannot be written: choose another folder.")


@contextmanager
def downloading(what: str = "downloading") -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a download. Raises Refused."""
    with progress_bar(what) as show:
        try:
            yield lambda done, total: show("", done, total)
        except DownloadFailed as error:
            raise Refused(str(error)) from error
