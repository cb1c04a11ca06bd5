"""Reads small files that may be damaged, or made to hang or fill the program that reads them."""

from __future__ import annotations

import errno
import json
import os
import stat
import tomllib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

from engine.files.ownership import is_trusted

LARGEST_TOML = 256 * 2**10
"""Bytes. Settings take 2 KiB, a long note 50 KiB; the parser needs up to 2 s for this size."""

LARGEST_JSON = 16 * 2**20
"""Bytes. The manifest of a checkpoint with 100,000 files."""

_LONGEST_NOTE = 64 * 2**10
"""Bytes of a short file: an address and a key take 200."""


class UnfitFile(OSError):
    """The file is not one that Traindeck reads; the text says which it is, in a few words."""


def open_regular(path: Path, *, follow_links: bool = False) -> BufferedReader:
    """Open a regular file for reading; see `read_regular`. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise UnfitFile(f"{path.name} is a link") from error
        if error.errno == errno.ENXIO:
            raise UnfitFile(f"{path.name} is not a regular file") from error
        raise
    try:
        file = os.fdopen(descriptor, "rb")  # raises IsADirectoryError
    except OSError:
        os.close(descriptor)
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnfitFile(f"{path.name} is not a regular file")
        if not (follow_links or is_trusted(status)):
            raise UnfitFile(f"{path.name} belongs to another user")
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: Path, most: int, *, follow_links: bool = False) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Never waits, as the opening of a pipe would. `follow_links` is for files that the user chooses;
    other files must be no links, and of this user. Raises OSError.
    """
    with open_regular(path, follow_links=follow_links) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most else file.read(most + 1)
        if max(size, len(content)) > most:
            raise UnfitFile(f"{path.name} is larger than {most:,} bytes")
        return content


def read_toml(
    path: Path,
    *,
    follow_links: bool = False,
    loads: Callable[[str], dict[str, Any]] = tomllib.loads,
) -> dict[str, Any]:
    """Return the document in a TOML file. Raises OSError, or ValueError if it is damaged."""
    text = read_regular(path, LARGEST_TOML, follow_links=follow_links).decode()
    try:
        return loads(text)
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None


def read_json(path: Path) -> Any:
    """Return the value in a short JSON file. Raises OSError, or ValueError if it is damaged."""
    try:
        return json.loads(read_regular(path, _LONGEST_NOTE))
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None
