"""Files that a command brings here or has sent: where they may be written, and what is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.cli.output import Refused, err
from engine.cli.progress import progress_bar
from engine.interface.files.transfers import DownloadFailed
from engine.interface.values import Code

_MOST_NAMES = 5
"""Modules that are named."""


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


def tell_sent(machine: str, code: Code) -> None:
    """Say which files were sent to a machine."""
    names = list(code.modules)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    modules = f" with {', '.join(names[:_MOST_NAMES])}{more}, which it imports" if names else ""
    text = f"Sent to {machine}: {code.name}{modules}. No data were sent: what it reads lies there."
    err().print(text, soft_wrap=True)
