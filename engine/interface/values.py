"""What the methods of an engine take and return, unless the engine has it already elsewhere."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from engine.doctor.check import Check

Packed = bytes
"""A value that was encoded by itself; empty: there is none."""

_RUN_NUMBER = r"^[1-9][0-9]{0,17}\Z"
RunNumber = Annotated[str, msgspec.Meta(pattern=_RUN_NUMBER)]
"""The number of a run or a sweep; what another machine says is checked, for it becomes a name."""


MostPoints = Annotated[int, msgspec.Meta(ge=1, le=50_000)]
"""The largest number of points that one question of another machine may ask for."""

LATEST = 1e11
"""Seconds since the epoch: a later time than any that a machine tells, if it is not wrong."""


def is_time(seconds: float) -> bool:
    """Whether this is a time that can be shown: finite, and within a few thousand years."""
    return 0 <= seconds < LATEST


def is_run_number(text: str) -> bool:
    """Whether `text` is the number of a run."""
    return re.search(_RUN_NUMBER, text) is not None


CheckpointName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")]
"""The name of a checkpoint's folder, checked for the same reason."""

PIECE = 256 * 2**10
"""Bytes of a file in one answer."""


class LogLines(msgspec.Struct, frozen=True):
    """A part of the log of a rank."""

    begin: int
    """The byte at which the first line begins."""

    lines: list[str]


class Code(msgspec.Struct, frozen=True):
    """A recipe or script with the modules beside it that it imports."""

    name: str
    """Of its file."""

    content: bytes
    modules: dict[str, bytes] = {}
    """By the path relative to the recipe's folder, with `/`."""


class ExaminationPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an examination, as soon as it is there."""

    check: Check | None = None
    """One more result."""

    doing: str = ""
    """Or what is checked now, in a few words."""


class CreationPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the creation of an environment is."""

    doing: str
    """Such as `Downloading torch-2.13.0`."""

    bytes: int
    """What lies in its folder by now."""

    output: str = ""
    """What the installer has printed since the part before; the newest of it, if it is much."""


class OfferedFile(msgspec.Struct, frozen=True):
    """A file that can be fetched, or that will be sent."""

    path: str
    """Relative to its folder, with `/`."""

    bytes: int
    sha256: str


class TemporaryFolder(msgspec.Struct, frozen=True):
    """A folder for files that come or go; it is deleted when the connection ends."""

    number: int
    path: str


class Exported(msgspec.Struct, frozen=True):
    """An export that lies in a temporary folder."""

    number: int
    files: list[OfferedFile]
    """One, or those of a folder: which of both, the format says. What another machine says is never
    the name of what is written here."""

    points: int = 0
    remarks: tuple[str, ...] = ()


class ImportSource(msgspec.Struct, frozen=True):
    """A file or folder that was sent, to make runs of."""

    path: str
    """Relative to the temporary folder, with `/`."""

    origin: str
    """Where it came from, for persons."""


class ImportedRuns(msgspec.Struct, frozen=True):
    """What an import has made."""

    run_ids: list[RunNumber]
    titles: list[str]
    points: int
    remarks: list[str] = []


class NoAnswer(OSError):
    """Another machine did not do what was asked; the text is a sentence that names it."""


class NotConnected(NoAnswer):
    """There is no connection to another machine, or it broke before the answer."""
