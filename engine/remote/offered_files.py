"""Files that one machine offers and another one downloads: in pieces, checked, all or nothing."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engine.files.atomic_file import sync_to_disk, sync_tree
from engine.files.disk_errors import short_reason
from engine.remote.requests import PIECE, OfferedFile
from engine.remote.sent_code import is_plain

MOST_FILES = 100_000


class DownloadFailed(Exception):
    """Nothing was downloaded; the text is a sentence."""


def offered_files(target: Path, check: Callable[[int], None]) -> list[OfferedFile]:
    """Return the files of the folder `target`, or `target` itself if it is a file.

    `check` is called with the bytes of each file, and may raise to end this. Raises OSError.
    """
    if target.is_file():
        return [_offered(target, target.parent)]
    found = []
    for path in sorted(target.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found.append(_offered(path, target))
            check(found[-1].bytes)
    return found


def download(
    files: Sequence[OfferedFile],
    target: Path,
    read: Callable[[str, int], bytes],
    progress: Callable[[int, int], None],
    *,
    is_file: bool,
) -> None:
    """Write `files` to the new folder `target`, or the only one of them to the new file `target`.

    `read` returns a piece of a file from an offset on. `progress` gets the bytes that are there and
    their total; what it raises ends the download. The names come from the other side, so each is
    checked; so are sizes and SHA-256. A download that fails leaves nothing. Raises DownloadFailed.
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
    except OSError as error:
        raise DownloadFailed(f"{target} cannot be written: {short_reason(error)}.") from error


def _check(files: Sequence[OfferedFile], target: Path, *, is_file: bool) -> None:
    names = [file.path for file in files]
    if len(names) > MOST_FILES or len(set(names)) < len(names) or (is_file and len(names) != 1):
        raise DownloadFailed("The other machine offers no list of files that could be downloaded.")
    for file in files:
        if not is_plain(file.path) or file.bytes < 0:
            raise DownloadFailed(f"The other machine offers a file with the name {file.path!r}.")
    if target.exists() or target.is_symlink():
        raise DownloadFailed(f"{target} exists already: choose another name, or remove it.")
    if not target.parent.is_dir():
        raise DownloadFailed(f"There is no folder {target.parent}: create it, or choose another.")


def _fetch(file: OfferedFile, path: Path, read: Callable[[str, int], bytes]) -> Iterator[int]:
    """Write one file; yield the size of each piece. Raises DownloadFailed, OSError."""
    digest, done = hashlib.sha256(), 0
    with path.open("xb") as written:
        while done < file.bytes:
            piece = read(file.path, done)
            if not piece or done + len(piece) > file.bytes:
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


def _offered(path: Path, folder: Path) -> OfferedFile:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(16 * PIECE):
            digest.update(piece)
            size += len(piece)
    return OfferedFile(path.relative_to(folder).as_posix(), size, digest.hexdigest())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
