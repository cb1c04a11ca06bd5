"""Whether a folder is one for all machines of a run: each reads what another one has written."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from engine.files.atomic_file import sync_to_disk
from engine.files.disk_errors import short_reason
from engine.files.ownership import is_own_folder
from engine.files.regular_file import read_regular
from engine.interface.sent_code import is_plain
from engine.runs.checkpoints import checkpoint_place

SEEN_SECONDS = 20.0
"""Time after which a file must be seen everywhere: a file server shows a new one late."""

_LONGEST = 256
_PARTS = "parts-of"


class Mark(NamedTuple):
    """A file that one machine has written, for the others to read."""

    name: str
    text: str


class NotShared(Exception):
    """The machines do not share the folder; the text is a clause about one of them."""


def place_for(run_folder: Path, shared_folder: str) -> Path | None:
    """Return the place of the run in the shared folder, a new one for a run without checkpoints.

    None: its checkpoints lie in its own folder. Raises OSError; its text is a sentence.
    """
    wanted = Path(shared_folder)
    try:
        checkpoint_place.check(run_folder)
        if not checkpoint_place.has_own(run_folder):
            return checkpoint_place.make(run_folder, wanted)
        linked = checkpoint_place.linked(run_folder)
    except checkpoint_place.PlaceAway as error:
        raise OSError(f"{error}.") from error
    except OSError as error:
        raise OSError(
            f"The shared folder {wanted} cannot be used here: {short_reason(error)}."
        ) from error
    return linked if linked and linked.parent == wanted else None


def leave_mark(place: Path, machine: str) -> Mark:
    """Write a mark for the other machines; empty: of the head. Raises NotShared."""
    mark = Mark(f"mark-of-{machine or 'head'}", secrets.token_hex(16))
    try:
        if not is_own_folder(place):
            raise NotShared(f"the place of the run in {place.parent} belongs to another user there")
        (place / mark.name).write_text(mark.text)
        sync_to_disk(place / mark.name)
    except OSError as error:
        raise NotShared(
            f"the shared folder {place.parent} cannot be written: {short_reason(error)}"
        ) from error
    return mark


def read_mark(place: Path, mark: Mark, whose: str, seconds: float = SEEN_SECONDS) -> None:
    """Read the mark of another machine, `whose` as a person calls it. Raises NotShared."""
    if not is_plain(mark.name):
        raise NotShared(f"{mark.name!r} is no name of a mark")
    if not place.parent.is_dir():
        raise NotShared(f"the shared folder {place.parent} is not there")
    deadline = time.monotonic() + seconds
    while True:
        try:
            if read_regular(place / mark.name, _LONGEST).decode() == mark.text:
                return
            why = "it has another content"
        except OSError as error:
            why = short_reason(error)
        except ValueError:
            why = "it is damaged"
        if time.monotonic() > deadline:
            raise NotShared(
                f"the shared folder {place.parent} is another one than that of {whose}: a file of "
                f"it cannot be read ({why})"
            )
        time.sleep(0.1)


def parts_folder(place: Path, machine: str, attempt: str) -> Path:
    """Return where a machine writes its parts of checkpoints, until the head moves them."""
    return place / f"{_PARTS}-{machine}.{attempt}"


class SharedPlace:
    """The place of a run in the folder, for the head; the other machines write and read there."""

    def __init__(self, run_folder: Path, place: Path) -> None:
        """Raises OSError."""
        self.folder = place
        self._run_folder = run_folder
        self._marks: list[Mark] = []
        self._is_used = checkpoint_place.linked(run_folder) == place

    def mark(self) -> Mark:
        """Write the head's mark, and return it. Raises NotShared."""
        _remove_parts(self.folder)  # of an attempt whose head was killed
        self._marks.append(leave_mark(self.folder, ""))
        return self._marks[-1]

    def parts_of(self, machine: str, attempt: str) -> Path:
        """See `parts_folder`."""
        return parts_folder(self.folder, machine, attempt)

    def read(self, machine: str, mark: Mark) -> None:
        """Read the mark of another machine. Raises NotShared."""
        self._marks.append(mark)
        read_mark(self.folder, mark, machine)

    def use(self) -> None:
        """Let the checkpoints of the run lie here: all marks were read. Raises OSError."""
        for mark in self._marks:
            with contextlib.suppress(OSError):
                (self.folder / mark.name).unlink()
        if not self._is_used:
            checkpoint_place.link(self._run_folder, self.folder)
            self._is_used = True

    def close(self) -> None:
        """Delete what is no checkpoint, and the place if the run did not come to use it."""
        _remove_parts(self.folder)
        if not self._is_used:
            shutil.rmtree(self.folder, ignore_errors=True)


def _remove_parts(place: Path) -> None:
    for folder in place.glob(f"{_PARTS}-*"):
        shutil.rmtree(folder, ignore_errors=True)
