"""A download: all of it or nothing, whatever the other machine offers."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.remote import downloads
from engine.remote.downloads import (
    DownloadFailed,
    copy_checkpoint,
    download_checkpoint,
    download_export,
    offered_checkpoint,
    offered_file,
    offered_files,
)
from engine.remote.requests import PIECE, Exported, OfferedFile
from engine.runs import checkpoint_files
from tests.support.recorded_runs import new_run_folder, save_checkpoint
from tests.support.sentences import sentence


class Source:
    """The other machine, as far as a download is concerned."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = 0
        self.most_asked = 0
        self.change: Callable[[bytes], bytes] = lambda piece: piece

    def begin(self, request: Any) -> Callable[[float], bytes]:
        """As `begin` of a connection."""
        self.asked += 1
        self.most_asked = max(self.most_asked, self.asked)

        def end(timeout: float) -> bytes:
            self.asked -= 1
            with (self.folder / request.file).open("rb") as file:
                file.seek(request.offset)
                return self.change(file.read(PIECE))

        return end


@pytest.fixture
def source(tmp_path: Path) -> Source:
    folder = tmp_path / "source"
    (folder / "inner").mkdir(parents=True)
    draw = random.Random(0)
    (folder / "a.csv").write_bytes(draw.randbytes(20 * PIECE + 17))
    (folder / "inner" / "b.csv").write_bytes(b"b")
    (folder / "empty").touch()
    return Source(folder)


def exported(source: Source, files: list[OfferedFile] | None = None) -> Exported:
    if files is None:
        files = offered_files(source.folder, lambda size: None)
    return Exported(1, "out", False, files)


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_folder_arrives_as_it_is_and_pieces_are_asked_for_in_advance(
    source: Source, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    shown: list[tuple[int, int]] = []
    download_export(
        source.begin, exported(source), target, lambda done, total: shown.append((done, total))
    )
    assert content(target) == content(source.folder)
    total = sum(map(len, content(target).values()))
    assert shown[-1] == (total, total)
    assert source.most_asked == downloads.AHEAD


def test_one_file_arrives_as_a_file(source: Source, tmp_path: Path) -> None:
    file = offered_file(source.folder / "a.csv", source.folder)
    target = tmp_path / "page.html"
    one = Exported(1, "page.html", True, [file])
    download_export(source.begin, one, target, lambda done, total: None)
    assert target.read_bytes() == (source.folder / "a.csv").read_bytes()


def test_a_checkpoint_arrives_whole(tmp_path: Path) -> None:
    saved = save_checkpoint(new_run_folder(), 7, 2 * PIECE)
    target = tmp_path / "step"
    source = Source(saved.folder)
    offered = offered_checkpoint(saved)
    download_checkpoint(source.begin, "1", offered, target, lambda done, total: None)
    assert content(target) == content(saved.folder)
    assert checkpoint_files.verify(target) == saved.manifest


def test_a_checkpoint_of_this_machine_is_copied_whole_or_not_at_all(tmp_path: Path) -> None:
    saved = save_checkpoint(new_run_folder(), 7, PIECE + 1)
    target = tmp_path / "step"
    copy_checkpoint(saved, target, lambda done, total: None)
    assert checkpoint_files.verify(target) == saved.manifest
    file = saved.folder / "rank0" / "model.safetensors"
    file.write_bytes(bytes(PIECE + 1))
    with pytest.raises(DownloadFailed, match="is not what was saved"):
        copy_checkpoint(saved, tmp_path / "other", lambda done, total: None)
    file.unlink()
    with pytest.raises(DownloadFailed, match=sentence("cannot-be-read-no-such-file").pattern):
        copy_checkpoint(saved, tmp_path / "other", lambda done, total: None)
    assert leaves_nothing(tmp_path, tmp_path / "other")


def leaves_nothing(tmp_path: Path, target: Path) -> bool:
    return not target.exists() and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda piece: piece[:-1] + bytes([piece[-1] ^ 1]) if piece else piece, "not what was"),
        (lambda piece: piece + b"more", "has changed there"),
        (lambda piece: b"", "has changed there"),
    ],
)
def test_what_differs_from_what_was_offered_is_not_kept(
    source: Source, tmp_path: Path, change: Callable[[bytes], bytes], words: str
) -> None:
    source.change = change
    target = tmp_path / "target"
    with pytest.raises(DownloadFailed, match=words):
        download_export(source.begin, exported(source), target, lambda done, total: None)
    assert leaves_nothing(tmp_path, target)


@pytest.mark.parametrize(
    "path", ["../out", "/etc/out", "a/../../out", "", ".", "a\\..\\out", "c:out", "a\0b", "a//b"]
)
def test_no_file_leaves_the_folder(source: Source, tmp_path: Path, path: str) -> None:
    target = tmp_path / "target"
    offered = exported(source, [OfferedFile(path, 1, "")])
    with pytest.raises(DownloadFailed, match="is no name of a file"):
        download_export(source.begin, offered, target, lambda done, total: None)
    assert leaves_nothing(tmp_path, target)


@pytest.mark.parametrize(
    "files",
    [
        [OfferedFile("a", 1, ""), OfferedFile("a", 1, "")],
        [OfferedFile("a", -1, "")],
        [OfferedFile("a", 2**60, "")],
        [OfferedFile("a", 0, ""), OfferedFile("a/b", 0, "")],
    ],
)
def test_nonsense_is_refused(source: Source, tmp_path: Path, files: list[OfferedFile]) -> None:
    target = tmp_path / "target"
    with pytest.raises(DownloadFailed):
        download_export(source.begin, exported(source, files), target, lambda done, total: None)
    assert leaves_nothing(tmp_path, target)


def test_what_is_there_is_never_overwritten(source: Source, tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match="exists already"):
        download_export(source.begin, exported(source), source.folder, lambda done, total: None)
    with pytest.raises(DownloadFailed, match="create it"):
        download_export(
            source.begin, exported(source), tmp_path / "no" / "way", lambda done, total: None
        )


class Cancelled(Exception):
    """Raised by a progress that is cancelled."""


def test_a_cancelled_download_leaves_nothing(source: Source, tmp_path: Path) -> None:
    def cancel(done: int, total: int) -> None:
        raise Cancelled

    target = tmp_path / "target"
    with pytest.raises(Cancelled):
        download_export(source.begin, exported(source), target, cancel)
    assert leaves_nothing(tmp_path, target)


def test_a_full_disk_here_is_a_sentence(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(downloads, "sync_tree", full)
    target = tmp_path / "target"
    with pytest.raises(DownloadFailed, match="cannot be written"):
        download_export(source.begin, exported(source), target, lambda done, total: None)
    assert leaves_nothing(tmp_path, target)
