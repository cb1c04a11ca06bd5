"""Files of this machine, sent into a temporary folder of an engine: in pieces, all or nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.files.disk_errors import short_reason
from engine.files.regular_file import open_regular
from engine.interface.engine import Engine, Progress
from engine.interface.files.transfers import AHEAD, offered_file
from engine.interface.values import PIECE, OfferedFile, TemporaryFolder


class UploadFailed(Exception):
    """Nothing was sent, or what was sent is of no use; the text is a sentence."""


class Outgoing(NamedTuple):
    """A file that is to be sent."""

    path: Path
    name: str
    """What it is called there, relative to the temporary folder, with `/`."""


def send(engine: Engine, files: Sequence[Outgoing], progress: Progress) -> TemporaryFolder:
    """Send `files`, and return the folder there; the other side compares sizes and SHA-256.

    `progress` gets the bytes that have arrived and their total. Raises UploadFailed, NoAnswer.
    """
    offered = [_offered(file) for file in files]
    total = sum(file.bytes for file in offered)
    folder = engine.make_folder(offered)
    done = 0
    sent: deque[tuple[int, Future[None]]] = deque()

    def wait_for_first() -> None:
        nonlocal done
        size, future = sent.popleft()
        future.result()
        done += size
        progress(done, total)

    with ThreadPoolExecutor(AHEAD) as pool:
        for file, offer in zip(files, offered, strict=True):
            for offset, content in _pieces(file.path, offer):
                if len(sent) == AHEAD:
                    wait_for_first()
                write = engine.write_piece
                future = pool.submit(write, folder.number, offer.path, offset, content)
                sent.append((len(content), future))
        while sent:
            wait_for_first()
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


def _pieces(path: Path, offered: OfferedFile) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the content of each piece. Raises UploadFailed."""
    changed = UploadFailed(f"{path} has changed while it was sent. Try again when it is complete.")
    try:
        with open_regular(path, follow_links=True) as file:
            for offset in range(0, offered.bytes, PIECE):
                content = file.read(min(PIECE, offered.bytes - offset))
                if len(content) < min(PIECE, offered.bytes - offset):
                    raise changed
                yield offset, content
    except OSError as error:
        raise UploadFailed(f"{path} cannot be read: {short_reason(error)}.") from error
