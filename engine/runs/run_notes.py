"""What a person writes on a run: its name, tags and a note, kept in `notes.toml` in its folder.

A file of its own, because `spec.toml` and `run.sqlite` belong to the supervisor.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import tomli_w

from engine.system.atomic_file import write_atomically

FILE_NAME = "notes.toml"
DAMAGED_NAME = "notes.damaged.toml"


class RunNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a person on one run; all of them may be empty."""

    name: str = ""
    """What the run is called now; empty: as it was called when it was started."""

    tags: tuple[str, ...] = ()
    """In alphabetical order, each one once."""

    note: str = ""


class UnreadableNotes(Exception):
    """A notes.toml that is damaged; the text is a sentence."""


def read_notes(folder: Path) -> RunNotes:
    """The notes on the run in `folder`; empty ones where nobody wrote any.

    Raises UnreadableNotes.
    """
    path = folder / FILE_NAME
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), RunNotes)
    except FileNotFoundError:
        return RunNotes()
    except (OSError, ValueError) as error:  # msgspec's and tomllib's errors are ValueErrors
        raise UnreadableNotes(
            f"The notes on run {folder.name} cannot be read: {error}. See {path}."
        ) from error


def write_notes(folder: Path, notes: RunNotes) -> None:
    """Replace the notes on the run in `folder`, all or nothing. What could not be read stays
    beside them as `notes.damaged.toml`. Raises OSError."""
    path = folder / FILE_NAME
    try:
        read_notes(folder)
    except UnreadableNotes:
        path.replace(folder / DAMAGED_NAME)
    said = {name: value for name, value in msgspec.to_builtins(notes).items() if value}
    write_atomically(path, tomli_w.dumps(said, multiline_strings=True), mode=0o600, sync=True)


def tags_of(text: str) -> tuple[str, ...]:
    """The tags in `text`, where commas or line ends stand between them."""
    return ordered_tags(re.split(r"[,\n]", text))


def ordered_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """`tags` without blanks around them, each one once, in alphabetical order."""
    return tuple(sorted({" ".join(tag.split()) for tag in tags if tag.strip()}, key=str.casefold))
