"""Files that an engine offers, fetched to this machine: in pieces, checked, all or nothing.

A checkpoint of this machine is copied in the same way.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from engine.files.atomic_file import sync_to_disk, sync_tree
from engine.files.disk_errors import short_reason
from engine.files.regular_file import open_regular
from engine.interface.engine import Engine, Progress
from engine.interface.sent_code import is_plain, is_plain_here
from engine.interface.values import PIECE, Exported, NoAnswer, NotConnected, OfferedFile
from engine.runs.checkpoints.checkpoint_files import MANIFEST, CheckpointInfo

MOST_FILES = 100_000
_PROGRAMS = (*importlib.machinery.all_suffixes(), ".pth")
"""Ends of the names of files that a Python runs when they lie on its path."""

AHEAD = 8
"""Pieces that are asked for before the first of them is here."""

_Read = Callable[[str, int], bytes]
"""Returns PIECE bytes of a file from an offset on."""


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


def offered_checkpoint(info: CheckpointInfo) -> list[OfferedFile]:
    """Return the files of a complete checkpoint, as its manifest lists them, and the manifest.

    Raises OSError.
    """
    listed = [
        OfferedFile(path, record.bytes, record.sha256)
        for path, record in info.manifest.files.items()
    ]
    return [*listed, offered_file(info.folder / MANIFEST, info.folder)]


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


def copy_checkpoint(engine: Engine, run: str, name: str, target: Path, progress: Progress) -> None:
    """Copy a checkpoint of a run to the new folder `target`; see `_fetch_all`."""
    with _readable(name):
        files = engine.offer_checkpoint(run, name)
    for file in files:
        if engine.machine and file.path.endswith(_PROGRAMS):
            raise DownloadFailed(f"{file.path!r} is no file of a checkpoint: Python would run it.")
    read = partial(engine.read_checkpoint, run, name)
    _fetch_all(files, target, read, progress, is_file=False)


def fetch_export(
    engine: Engine, exported: Exported, target: Path, progress: Progress, *, is_file: bool
) -> None:
    """Fetch an export to the new file or folder `target`; see `_fetch_all`."""
    read = partial(engine.read_piece, exported.number)
    _fetch_all(exported.files, target, read, progress, is_file=is_file)


def _fetch_all(
    files: Sequence[OfferedFile],
    target: Path,
    read: _Read,
    progress: Progress,
    *,
    is_file: bool,
) -> None:
    """Write `files` to the new folder `target`, or the only one of them to the new file `target`.

    `progress` gets the bytes that are there and their total; what it raises ends this. The names
    come from the other side, so each is checked; so are sizes and SHA-256. What fails leaves
    nothing. Raises DownloadFailed, NoAnswer.
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
                for size in _fetch(file, path, read):
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
    except NotConnected as error:
        raise NotConnected(f"{error} Nothing was kept of the download.") from error
    except NoAnswer:
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


def _fetch(file: OfferedFile, path: Path, read: _Read) -> Iterator[int]:
    """Write one file; yield the size of each piece. Raises DownloadFailed, OSError."""
    digest, done = hashlib.sha256(), 0
    offsets = iter(range(0, file.bytes, PIECE))
    asked: deque[Future[bytes]] = deque()
    with ThreadPoolExecutor(AHEAD) as pool, path.open("xb") as written:
        while done < file.bytes:
            # The next pieces are asked for before this one is here: a far machine is no slow one.
            for offset in islice(offsets, AHEAD - len(asked)):
                asked.append(pool.submit(read, file.path, offset))
            with _readable(file.path):
                piece = asked.popleft().result()
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


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Let what cannot be read on this machine be a DownloadFailed."""
    try:
        yield
    except NoAnswer:
        raise
    except (OSError, Unfit) as error:
        why = short_reason(error) if isinstance(error, OSError) else str(error).rstrip(".")
        raise DownloadFailed(f"{name} cannot be read: {why}. Nothing was copied.") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
