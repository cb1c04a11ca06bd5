"""The user's notes on a run: name, tags and a text, in `notes.toml` in its folder.

They have their own file, because only the supervisor writes `spec.toml` and `run.sqlite`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
import tomli_w

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_toml

SWEEP_TAG, TRIAL_TAG = "sweep-", "trial-"
"""How the tags begin that a sweep gives its runs; its number, and that of the trial follow."""

FILE_NAME = "notes.toml"
DAMAGED_NAME = "notes.damaged.toml"


class RunNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The user's notes on one run; every field may be empty."""

    name: str = ""
    """The name of the run; empty: the name in its spec."""

    tags: tuple[str, ...] = ()
    """In alphabetical order, without duplicates."""

    note: str = ""


def number_in(tags: Iterable[str], prefix: str) -> int | None:
    """Return the number of the first tag that is `prefix` and a number; None: there is none."""
    numbers = (tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix))
    return next((int(each) for each in numbers if each.isdecimal()), None)


class UnreadableNotes(Exception):
    """The notes.toml is damaged; the text is a sentence."""


def read_notes(folder: Path) -> RunNotes:
    """Return the notes on the run in `folder`; empty notes if there is no file.

    Raises UnreadableNotes.
    """
    path = folder / FILE_NAME
    try:
        return msgspec.convert(read_toml(path), RunNotes)
    except FileNotFoundError:
        return RunNotes()
    except (OSError, ValueError) as error:  # msgspec's and tomllib's errors are ValueErrors
        raise UnreadableNotes(
            f"The notes on run {folder.name} cannot be read: {error}. See {path}."
        ) from error


def write_notes(folder: Path, notes: RunNotes) -> None:
    """Replace the notes on the run in `folder`. Raises OSError.

    An unreadable file is renamed to `notes.damaged.toml`.
    """
    path = folder / FILE_NAME
    try:
        read_notes(folder)
    except UnreadableNotes:
        path.replace(folder / DAMAGED_NAME)
    written = {name: value for name, value in msgspec.to_builtins(notes).items() if value}
    write_atomically(path, tomli_w.dumps(written, multiline_strings=True), mode=0o600, sync=True)


class ChangedNotes(NamedTuple):
    """What a person has changed in the notes on a run, which others may change too."""

    before: RunNotes
    """What the person has read."""

    after: RunNotes

    def in_(self, now: RunNotes) -> RunNotes:
        """Return the notes as they are `now`, with this change: what was left alone stays, and of
        two texts that were written into the note both."""
        before, after = self
        gone, new = set(before.tags) - set(after.tags), set(after.tags) - set(before.tags)
        return RunNotes(
            name=after.name if after.name != before.name else now.name,
            note=self._note(now.note),
            tags=ordered_tags((set(now.tags) | new) - gone),
        )

    def _note(self, now: str) -> str:
        ours = self.after.note
        if ours in (self.before.note, now):
            return now
        return ours if now in (self.before.note, "") else f"{ours}\n\n{now}"


def change_notes(folder: Path, change: ChangedNotes) -> None:
    """Change the notes on the run in `folder` as `write_notes` writes them. Raises OSError."""
    try:
        now = read_notes(folder)
    except UnreadableNotes:
        now = change.before
    write_notes(folder, change.in_(now))


def tags_of(text: str) -> tuple[str, ...]:
    """Return the tags in `text`, which commas or line ends separate."""
    return ordered_tags(re.split(r"[,\n]", text))


def ordered_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return `tags` in alphabetical order, without duplicates and spaces around them."""
    return tuple(sorted({" ".join(tag.split()) for tag in tags if tag.strip()}, key=str.casefold))
