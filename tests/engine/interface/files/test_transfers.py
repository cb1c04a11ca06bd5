"""Files that are fetched: all of them or nothing, whatever the other machine offers."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from engine.interface.engine import Engine
from engine.interface.files import transfers
from engine.interface.files.transfers import (
    AHEAD,
    DownloadFailed,
    copy_checkpoint,
    fetch_export,
    offered_file,
    offered_files,
)
from engine.interface.local_engine import LocalEngine
from engine.interface.values import PIECE, Exported, NotConnected, OfferedFile
from engine.runs.checkpoints import checkpoint_files
from engine.system.cancelled import Cancelled
from tests.support.recorded_runs import new_run_folder, save_checkpoint


class Source:
    """The engine of another machine, as far as its exports are concerned."""

    machine = "gpus"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.change: Callable[[bytes], bytes] = lambda piece: piece
        self.wait: Callable[[str, int], None] = lambda file, offset: None

    def read_piece(self, number: int, name: str, offset: int) -> bytes:
        """As that of an engine."""
        self.wait(name, offset)
        with (self.folder / name).open("rb") as file:
            file.seek(offset)
            return self.change(file.read(PIECE))


def fetch(
    source: Source,
    offered: Exported,
    target: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    fetch_export(cast(Engine, source), offered, target, progress, is_file=False)


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
    return Exported(1, files)


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_folder_arrives_as_it_is(source: Source, tmp_path: Path) -> None:
    target = tmp_path / "target"
    shown: list[tuple[int, int]] = []
    fetch(source, exported(source), target, lambda done, total: shown.append((done, total)))
    assert content(target) == content(source.folder)
    total = sum(map(len, content(target).values()))
    assert shown[-1] == (total, total)


def test_pieces_are_asked_for_in_advance(source: Source, tmp_path: Path) -> None:
    together = threading.Barrier(AHEAD, timeout=60.0)

    def wait(file: str, offset: int) -> None:
        if file == "a.csv" and offset < AHEAD * PIECE:
            together.wait()

    source.wait = wait
    fetch(source, exported(source), tmp_path / "target")
    assert content(tmp_path / "target") == content(source.folder)


def test_one_file_arrives_as_a_file(source: Source, tmp_path: Path) -> None:
    file = offered_file(source.folder / "a.csv", source.folder)
    target = tmp_path / "page.html"
    one = Exported(1, [file])
    fetch_export(cast(Engine, source), one, target, lambda done, total: None, is_file=True)
    assert target.read_bytes() == (source.folder / "a.csv").read_bytes()


def test_a_connection_that_breaks_is_said_and_leaves_nothing(
    source: Source, tmp_path: Path
) -> None:
    def wait(file: str, offset: int) -> None:
        raise NotConnected("gpus: The connection broke before the answer came.")

    source.wait = wait
    with pytest.raises(NotConnected, match="Nothing was kept of the download"):
        fetch(source, exported(source), tmp_path / "target")
    assert leaves_nothing(tmp_path, tmp_path / "target")


def test_a_checkpoint_is_copied_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = new_run_folder()
    saved = save_checkpoint(folder, 7, PIECE + 1)
    name, target, engine = saved.folder.name, tmp_path / "step", LocalEngine()

    def copy(target: Path) -> None:
        copy_checkpoint(engine, folder.name, name, target, lambda done, total: None)

    copy(target)
    assert content(target) == content(saved.folder)
    assert checkpoint_files.verify(target) == saved.manifest
    file = saved.folder / "rank0" / "model.safetensors"
    file.write_bytes(bytes(PIECE + 1))
    with pytest.raises(DownloadFailed, match="is not what was saved"):
        copy(tmp_path / "other")
    file.unlink()
    with pytest.raises(DownloadFailed, match=r"model.safetensors cannot be read: no such file"):
        copy(tmp_path / "other")
    with pytest.raises(DownloadFailed, match=r"has no checkpoint step-9 any more"):
        copy_checkpoint(engine, folder.name, "step-9", target, lambda done, total: None)
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
        fetch(source, exported(source), target)
    assert leaves_nothing(tmp_path, target)


@pytest.mark.parametrize(
    "path", ["../out", "/etc/out", "a/../../out", "", ".", "a\\..\\out", "c:out", "a\0b", "a//b"]
)
def test_no_file_leaves_the_folder(source: Source, tmp_path: Path, path: str) -> None:
    target = tmp_path / "target"
    offered = exported(source, [OfferedFile(path, 1, "")])
    with pytest.raises(DownloadFailed, match="is no name of a file"):
        fetch(source, offered, target)
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
        fetch(source, exported(source, files), target)
    assert leaves_nothing(tmp_path, target)


def test_what_is_there_is_never_overwritten(source: Source, tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match="exists already"):
        fetch(source, exported(source), source.folder)
    with pytest.raises(DownloadFailed, match="create it"):
        fetch(source, exported(source), tmp_path / "no" / "way")


def test_a_cancelled_download_leaves_nothing(source: Source, tmp_path: Path) -> None:
    def cancel(done: int, total: int) -> None:
        raise Cancelled

    target = tmp_path / "target"
    with pytest.raises(Cancelled):
        fetch(source, exported(source), target, cancel)
    assert leaves_nothing(tmp_path, target)


def test_a_full_disk_here_is_a_sentence(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfers, "sync_tree", full)
    target = tmp_path / "target"
    with pytest.raises(DownloadFailed, match="cannot be written"):
        fetch(source, exported(source), target)
    assert leaves_nothing(tmp_path, target)


@pytest.mark.parametrize("name", ["step-1/argparse.py", "x.so", "site.pth"])
def test_a_program_is_no_part_of_a_checkpoint(name: str, tmp_path: Path) -> None:
    class Other:
        machine = "gpus"

        def offer_checkpoint(self, run: str, checkpoint: str) -> list[OfferedFile]:
            """As that of an engine."""
            return [OfferedFile(name, 0, "")]

    with pytest.raises(DownloadFailed, match="Python would run it"):
        copy_checkpoint(cast(Engine, Other()), "1", "step-1", tmp_path / "to", lambda *_: None)
    assert not (tmp_path / "to").exists()
