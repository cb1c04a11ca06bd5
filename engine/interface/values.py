"""What the methods of an engine take and return, unless the engine has it already elsewhere."""

from __future__ import annotations

import msgspec

from engine.doctor.check import Check

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
    name: str
    """A proposed name for the file or the folder."""

    is_file: bool
    """Whether it is one file, and no folder."""

    files: list[OfferedFile]
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

    run_ids: list[str]
    titles: list[str]
    points: int
    remarks: list[str] = []


class NoAnswer(OSError):
    """Another machine did not do what was asked; the text is a sentence that names it."""


class NotConnected(NoAnswer):
    """There is no connection to another machine, or it broke before the answer."""
