"""Files that one machine offers and another one downloads: in pieces, checked, all or nothing.

A checkpoint of this machine is copied in the same way.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from engine.files.atomic_file import sync_to_disk, sync_tree
from engine.files.disk_errors import short_reason
from engine.files.regular_file import open_regular
from engine.remote import requests
from engine.remote.requests import PIECE, Checkpoint, Exported, OfferedFile, Request
from engine.remote.sent_code import is_plain, is_plain_here
from engine.runs.checkpoint_files import MANIFEST, CheckpointInfo

MOST_FILES = 100_000
AHEAD = 8
"""Pieces that are asked for before the first of them is here."""

LONGEST_PIECE = 60.0
"""Seconds for one piece."""

Begin = Callable[[Request[bytes]], Callable[[float], bytes]]
"""`begin` of a connection or of a session."""

_Ask = Callable[[str, int], Callable[[], bytes]]
"""Asks for PIECE bytes of a file from an offset on, and returns what waits for them."""


class DownloadFailed(Exception):
    """Nothing was downloaded; the text is a sentence."""


class Unfit(ValueError):
    """A file or folder cannot be had so; the text is a sentence."""


def offered_file(path: Path, folder: Path) -> OfferedFile:
    """Return what is said of a file below `folder`. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with open_regular(path, follow_links=True) as file:
        while piece := file.read(16 * PIECE):
            digest.update(piece)
            size += len(piece)
    return OfferedFile(path.relative_to(folder).as_posix(), size, digest.hexdigest())


def offered_checkpoint(info: CheckpointInfo) -> Checkpoint:
    """Return what is said of a complete checkpoint. Raises OSError."""
    manifest_file = offered_file(info.folder / MANIFEST, info.folder)
    return Checkpoint(info.folder.name, info.manifest, manifest_file)


def piece_of(folder: Path, name: str, offset: int) -> bytes:
    """Return PIECE bytes of a file in `folder`; fewer at its end. Raises Unfit, OSError."""
    path = folder / name
    if not is_plain_here(name) or not path.parent.resolve().is_relative_to(folder.resolve()):
        raise Unfit(f"{name!r} is no file of {folder.name}.")
    with open_regular(path) as file:
        file.seek(max(0, offset))
        return file.read(PIECE)


def offered_files(target: Path, check: Callable[[int], None]) -> list[OfferedFile]:
    """Return the files of the folder `target`, or `target` itself if it is a file.

    `check` is called with the bytes of each file, and may raise to end this. Raises OSError.
    """
    if target.is_file():
        return [offered_file(target, target.parent)]
    found = []
    for path in sorted(target.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found.append(offered_file(path, target))
            check(found[-1].bytes)
    return found


def download_export(
    begin: Begin, exported: Exported, target: Path, progress: Callable[[int, int], None]
) -> None:
    """Download an export to the new file or folder `target`; see `_download`."""

    def ask(path: str, offset: int) -> Callable[[], bytes]:
        request = requests.ReadExport(exported.number, path, offset)
        return partial(begin(request), LONGEST_PIECE)

    _download(exported.files, target, ask, progress, is_file=exported.is_file)


def download_checkpoint(
    begin: Begin,
    run_id: str,
    checkpoint: Checkpoint,
    target: Path,
    progress: Callable[[int, int], None],
) -> None:
    """Download a checkpoint to the new folder `target`; see `_download`."""

    def ask(path: str, offset: int) -> Callable[[], bytes]:
        request = requests.ReadCheckpoint(run_id, checkpoint.name, path, offset)
        return partial(begin(request), LONGEST_PIECE)

    _download(_files_of(checkpoint), target, ask, progress, is_file=False)


def copy_checkpoint(
    info: CheckpointInfo, target: Path, progress: Callable[[int, int], None]
) -> None:
    """Copy a checkpoint of this machine to the new folder `target`; see `_download`."""

    def read(path: str, offset: int) -> bytes:
        try:
            return piece_of(info.folder, path, offset)
        except (OSError, Unfit) as error:
            raise _unreadable(info.folder / path, error) from error

    try:
        offered = offered_checkpoint(info)
    except OSError as error:
        raise _unreadable(info.folder / MANIFEST, error) from error
    _download(
        _files_of(offered),
        target,
        lambda path, offset: partial(read, path, offset),
        progress,
        is_file=False,
    )


def _unreadable(path: Path, error: OSError | Unfit) -> DownloadFailed:
    why = short_reason(error) if isinstance(error, OSError) else str(error).rstrip(".")
    return DownloadFailed(f"{path} cannot be read: {why}. Nothing was copied.")


def _files_of(checkpoint: Checkpoint) -> list[OfferedFile]:
    files = [
        OfferedFile(path, record.bytes, record.sha256)
        for path, record in checkpoint.manifest.files.items()
    ]
    return [*files, checkpoint.manifest_file]


def _download(
    files: Sequence[OfferedFile],
    target: Path,
    ask: _Ask,
    progress: Callable[[int, int], None],
    *,
    is_file: bool,
) -> None:
    """Write `files` to the new folder `target`, or the only one of them to the new file `target`.

    `progress` gets the bytes that are there and
    their total; what it raises ends the download. The names come from the other side, so each is
    checked; so are sizes and SHA-256. A download that fails leaves nothing. Raises DownloadFailed,
    and what the connection raises.
    """
    _check(files, target, is_file=is_file)
    total = sum(file.bytes for file in files)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(3)}.tmp")
    try:
        try:
            if shutil.disk_usage(target.parent).free < total:
                raise DownloadFailed(
                    f"{target} would take {total:,} bytes, and its disk has not as many free."
                )
            if not is_file:
                temporary.mkdir(mode=0o700)
            done = 0
            for file in files:
                path = temporary if is_file else temporary / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                for size in _fetch(file, path, ask):
                    done += size
                    progress(done, total)
            if is_file:
                sync_to_disk(temporary)
            else:
                sync_tree(temporary)
            temporary.rename(target)
            sync_to_disk(target.parent)
        except BaseException:
            _remove(temporary)
            raise
    except OSError as error:
        raise DownloadFailed(f"{target} cannot be written: {short_reason(error)}.") from error


def _check(files: Sequence[OfferedFile], target: Path, *, is_file: bool) -> None:
    names = [file.path for file in files]
    if len(names) > MOST_FILES or len(set(names)) < len(names) or (is_file and len(names) != 1):
        raise DownloadFailed("There is no list of files that could be downloaded.")
    for file in files:
        if not is_plain(file.path) or file.bytes < 0:
            raise DownloadFailed(f"{file.path!r} is no name of a file that could be downloaded.")
    if target.exists() or target.is_symlink():
        raise DownloadFailed(f"{target} exists already: choose another name, or remove it.")
    if not target.parent.is_dir():
        raise DownloadFailed(f"There is no folder {target.parent}: create it, or choose another.")


def _fetch(file: OfferedFile, path: Path, ask: _Ask) -> Iterator[int]:
    """Write one file; yield the size of each piece. Raises DownloadFailed, OSError."""
    digest, done = hashlib.sha256(), 0
    offsets = iter(range(0, file.bytes, PIECE))
    asked: deque[Callable[[], bytes]] = deque()
    with path.open("xb") as written:
        while done < file.bytes:
            # The next pieces are asked for before this one is here: a far machine is no slow one.
            asked.extend(ask(file.path, offset) for offset in islice(offsets, AHEAD - len(asked)))
            piece = asked.popleft()()
            if len(piece) != min(PIECE, file.bytes - done):
                raise DownloadFailed(f"{file.path} has changed there during the download.")
            digest.update(piece)
            written.write(piece)
            done += len(piece)
            yield len(piece)
    if digest.hexdigest() != file.sha256:
        raise DownloadFailed(
            f"{file.path} is not what was saved: it was damaged there or on the way. "
            "Nothing was kept of the download."
        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
