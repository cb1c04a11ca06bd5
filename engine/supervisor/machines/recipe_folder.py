"""The folder of a recipe, with its data files, packed for machines that do not have it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from engine.files.disk_errors import short_reason
from engine.files.regular_file import read_regular
from engine.interface.sent_code import is_plain_here
from engine.system import paths

MOST_FILES = 2000
MOST_BYTES = 64 * 2**20

_MOST_ENTRIES = 20_000
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "checkpoints"})


class UnfitFolder(Exception):
    """A folder does not travel; the text is a clause about it."""


class Packed(msgspec.Struct, frozen=True):
    """What a packed file holds."""

    files: dict[str, bytes]
    """By path in the folder, with `/`."""


def pack(folder: Path) -> bytes:
    """Return the files of `folder`, packed.

    Hidden files, virtual environments, installed packages, compiled modules and folders of
    checkpoints are left out, and so are links to folders. Raises UnfitFolder.
    """
    files: dict[str, bytes] = {}
    left = MOST_BYTES
    try:
        for file in _files_in(folder):
            name = file.relative_to(folder).as_posix()
            if len(files) == MOST_FILES:
                raise UnfitFolder(f"it has more than {MOST_FILES:,} files")
            if not _is_text(name):
                raise UnfitFolder(f"the name of {name!a} in it is not valid UTF-8")
            size = file.stat().st_size
            if size > left:
                raise UnfitFolder(f"its files have more than {MOST_BYTES // 2**20} MiB")
            files[name] = read_regular(file, left, follow_links=True)
            left -= len(files[name])
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise UnfitFolder(f"it cannot be read: {place}{short_reason(error)}") from error
    return msgspec.msgpack.encode(Packed(files))


def unpack(packed: bytes, folder: Path) -> None:
    """Write what was packed to the new folder `folder`. Raises OSError, or ValueError."""
    files = msgspec.msgpack.decode(packed, type=Packed).files
    if not all(map(is_plain_here, files)):
        raise ValueError("it has names that are none of files in it")
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files that travel, always in one order. Raises OSError, UnfitFolder."""
    waiting = [folder]
    seen = 0
    while waiting:
        current = waiting.pop()
        entries = sorted(current.iterdir())
        if current != folder and (current / "pyvenv.cfg") in entries:
            continue
        seen += len(entries)
        if seen > _MOST_ENTRIES:
            raise UnfitFolder(f"it has more than {_MOST_ENTRIES:,} files and folders")
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _LEFT_OUT or entry.suffix == ".pyc":
                continue
            if entry == paths.home():
                continue
            if entry.is_dir():
                if not entry.is_symlink():
                    waiting.append(entry)
            elif _is_file(entry):
                yield entry


def _is_file(entry: Path) -> bool:
    """Whether it is a regular file, or a link to one; a pipe, or a link to nothing, is none."""
    try:
        return stat.S_ISREG(entry.stat().st_mode)
    except FileNotFoundError:
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
