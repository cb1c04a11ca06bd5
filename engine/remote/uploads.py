"""Files that are sent into a temporary folder of another machine: in pieces, all or nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.files.disk_errors import short_reason
from engine.files.regular_file import open_regular
from engine.remote import requests
from engine.remote.downloads import AHEAD, LONGEST_PIECE, offered_file
from engine.remote.requests import PIECE, OfferedFile, TemporaryFolder
from engine.remote.session import Session

LONGEST_PREPARING = 60.0
"""Seconds until the folder is there."""


class UploadFailed(Exception):
    """Nothing was sent, or what was sent is of no use; the text is a sentence."""


class Outgoing(NamedTuple):
    """A file that is to be sent."""

    path: Path
    name: str
    """What it is called there, relative to the temporary folder, with `/`."""


def send(
    session: Session, files: Sequence[Outgoing], progress: Callable[[int, int], None]
) -> TemporaryFolder:
    """Send `files`, and return the folder there; the other side compares sizes and SHA-256.

    `progress` gets the bytes that have arrived and their total. Raises UploadFailed, RemoteError.
    """
    offered = [_offered(file) for file in files]
    total = sum(file.bytes for file in offered)
    folder = session.call(requests.MakeFolder(offered), LONGEST_PREPARING)
    done = 0
    asked: deque[tuple[int, Callable[[float], None]]] = deque()

    def arrive() -> None:
        nonlocal done
        size, end = asked.popleft()
        end(LONGEST_PIECE)
        done += size
        progress(done, total)

    for file, offer in zip(files, offered, strict=True):
        for piece in _pieces(file.path, offer, folder.number):
            if len(asked) == AHEAD:
                arrive()
            asked.append((len(piece.content), session.begin(piece)))
    while asked:
        arrive()
    return folder


def _offered(file: Outgoing) -> OfferedFile:
    try:
        file.name.encode()
        offered = offered_file(file.path, file.path.parent)
    except UnicodeEncodeError:
        shown = str(file.path).encode(errors="backslashreplace").decode()
        raise UploadFailed(
            f"The name of {shown} is not UTF-8: rename it, then try again."
        ) from None
    except OSError as error:
        raise UploadFailed(f"{file.path} cannot be read: {short_reason(error)}.") from error
    return msgspec.structs.replace(offered, path=file.name)


def _pieces(path: Path, offered: OfferedFile, number: int) -> Iterator[requests.Write]:
    changed = UploadFailed(f"{path} has changed while it was sent. Try again when it is complete.")
    try:
        with open_regular(path, follow_links=True) as file:
            for offset in range(0, offered.bytes, PIECE):
                content = file.read(min(PIECE, offered.bytes - offset))
                if len(content) < min(PIECE, offered.bytes - offset):
                    raise changed
                yield requests.Write(number, offered.path, offset, content)
    except OSError as error:
        raise UploadFailed(f"{path} cannot be read: {short_reason(error)}.") from error
