"""Files that are sent: all of them arrive as they are, or nothing is made of them or left there."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.imports.csv_tables import ColumnNames
from engine.imports.found_run import CannotImport
from engine.interface.engine import Progress
from engine.interface.files import temporary_folders, uploads
from engine.interface.files.transfers import AHEAD, Unfit, offered_file
from engine.interface.files.uploads import Outgoing, UploadFailed
from engine.interface.local_engine import LocalEngine
from engine.interface.values import (
    PIECE,
    ImportedRuns,
    ImportSource,
    NoAnswer,
    OfferedFile,
    TemporaryFolder,
)
from engine.runs import run_info
from engine.system.cancelled import Cancelled
from tests.support.remote_peer import Peer

CSV = b"step,loss\n" + b"".join(b"%d,0.5\n" % step for step in range(100_000))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a b.csv"
    path.write_bytes(CSV)
    return path


class Receiver(LocalEngine):
    """An engine whose pieces a test may change on their way."""

    def __init__(self) -> None:
        super().__init__()
        self.change: Callable[[bytes], bytes] = lambda content: content
        self.wait: Callable[[int], None] = lambda offset: None

    def write_piece(self, number: int, file: str, offset: int, content: bytes) -> None:
        self.wait(offset)
        super().write_piece(number, file, offset, self.change(content))


@pytest.fixture
def engine() -> Iterator[Receiver]:
    with closing(Receiver()) as engine:
        yield engine


def send(engine: Receiver, *files: tuple[Path, str]) -> TemporaryFolder:
    outgoing = [Outgoing(*file) for file in files]
    return uploads.send(engine, outgoing, lambda done, total: None)


def import_of(
    engine: LocalEngine,
    folder: TemporaryFolder,
    name: str,
    progress: Progress = lambda done, total: None,
) -> ImportedRuns:
    sources = [ImportSource(name, "laptop:/home/me/a.csv")]
    return engine.import_runs(folder.number, sources, ColumnNames(), progress)


def test_files_arrive_as_they_are_become_runs_and_are_deleted(
    engine: Receiver, file: Path, tmp_path: Path, temporary: Path
) -> None:
    (tmp_path / "empty").touch()
    folder = send(engine, (file, "0/früher: 50 %/a b.csv"), (tmp_path / "empty", "1/empty"))
    done = import_of(engine, folder, "0/früher: 50 %/a b.csv")
    (info,) = run_info.runs()
    assert (done.run_ids, done.titles, done.points) == ([info.id], [info.title], 100_000)
    assert info.spec.imported_from == "laptop:/home/me/a.csv"
    engine.discard_folder(folder.number)
    assert not list(temporary.iterdir())


def test_a_few_pieces_are_on_the_way_together(engine: Receiver, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(20 * PIECE + 1))
    together = threading.Barrier(AHEAD, timeout=60.0)
    engine.wait = lambda offset: together.wait() if offset < AHEAD * PIECE else None
    folder = send(engine, (tmp_path / "large", "0/large"))
    assert (Path(folder.path) / "0/large").read_bytes() == bytes(20 * PIECE + 1)


def test_what_arrives_differently_is_not_imported(engine: Receiver, file: Path) -> None:
    engine.change = lambda content: content[:-1] + b"7"
    folder = send(engine, (file, "0/a.csv"))
    with pytest.raises(Unfit, match="did not arrive as it was"):
        import_of(engine, folder, "0/a.csv")
    assert run_info.runs() == []


def test_a_file_that_becomes_shorter_meanwhile_is_said(engine: Receiver, file: Path) -> None:
    file.write_bytes(bytes(2 * AHEAD * PIECE))
    engine.wait = lambda offset: os.truncate(file, PIECE + 1)
    with pytest.raises(UploadFailed, match="has changed while it was sent"):
        send(engine, (file, "0/a.csv"))


def test_a_file_that_cannot_be_sent_is_named(engine: Receiver, tmp_path: Path) -> None:
    with pytest.raises(UploadFailed, match=r"gone\.csv cannot be read"):
        send(engine, (tmp_path / "gone.csv", "0/gone.csv"))
    odd = tmp_path / "odd\udcff.csv"
    odd.touch()
    with pytest.raises(UploadFailed, match=r"odd\\udcff\.csv is not UTF-8"):
        send(engine, (odd, f"0/{odd.name}"))


@pytest.mark.parametrize(
    "files",
    [
        [OfferedFile("../out", 1, "")],
        [OfferedFile("/etc/out", 1, "")],
        [OfferedFile("a/../../out", 1, "")],
        [OfferedFile("a\0b", 1, "")],
        [OfferedFile("", 1, "")],
        [OfferedFile("a", -1, "")],
        [OfferedFile("a", 1, ""), OfferedFile("a", 1, "")],
    ],
)
def test_nonsense_is_refused_and_leaves_nothing(
    engine: Receiver, temporary: Path, files: list[OfferedFile]
) -> None:
    with pytest.raises(Unfit, match="could be received"):
        engine.make_folder(files)
    assert not list(temporary.iterdir())


def test_more_than_the_disk_has_is_refused_before_anything_is_sent(
    engine: Receiver, temporary: Path
) -> None:
    with pytest.raises(Unfit, match="TMPDIR"):
        engine.make_folder([OfferedFile("a", 2**60, "")])
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    "piece",
    [
        (1, "b", 0, b"x"),
        (1, "../a", 0, b"x"),
        (1, "a", 1, b"x"),
        (1, "a", -PIECE, b"x"),
        (1, "a", PIECE, b"x"),
        (1, "a", 0, b"xx"),
        (2, "a", 0, b"x"),
    ],
)
def test_only_what_was_announced_is_written(
    engine: Receiver, piece: tuple[int, str, int, bytes]
) -> None:
    engine.make_folder([OfferedFile("a", 1, "")])
    with pytest.raises(Unfit):
        engine.write_piece(*piece)


def test_no_other_file_is_imported(engine: Receiver, file: Path) -> None:
    folder = send(engine, (file, "0/a.csv"))
    for name in (f"../../{file.name}", str(file), ""):
        with pytest.raises(Unfit, match="no list of files"):
            import_of(engine, folder, name)


def test_a_fault_is_named_as_the_file_is_called_where_it_came_from(
    engine: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("step,loss\nx,y\n")
    folder = send(engine, (tmp_path / "a.csv", "0/a.csv"))
    with pytest.raises(CannotImport, match=r"laptop:/home/me/a\.csv, line 2"):
        import_of(engine, folder, "0/a.csv")


def test_a_cancelled_import_leaves_nothing(engine: Receiver, file: Path) -> None:
    folder = send(engine, (file, "0/a.csv"))

    def cancel(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        import_of(engine, folder, "0/a.csv", cancel)
    assert run_info.runs() == []


def test_what_was_sent_goes_with_the_connection(file: Path, temporary: Path) -> None:
    with closing(Peer()) as peer:
        offered = offered_file(file, file.parent)
        engine = peer.engine
        folder = engine.make_folder([offered])
        assert Path(folder.path).parent == temporary
        engine.write_piece(folder.number, offered.path, 0, CSV[:PIECE])
        sources = [ImportSource(offered.path, "laptop:/home/me/a.csv")]
        with pytest.raises(NoAnswer, match="did not arrive as it was"):
            engine.import_runs(folder.number, sources, ColumnNames(), lambda *_: None)
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())


def test_a_folder_made_while_the_connection_ends_is_deleted(
    engine: Receiver, temporary: Path
) -> None:
    engine.close()
    with pytest.raises(Unfit, match="has ended"):
        engine.make_folder()
    assert not list(temporary.iterdir())


def test_what_a_killed_program_has_left_is_deleted_after_a_day(
    engine: Receiver, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = temporary / f"{temporary_folders.PREFIX}left"
    left.mkdir()
    engine.make_folder()
    assert left.exists()
    monkeypatch.setattr(temporary_folders, "LEFTOVER_SECONDS", -1.0)
    engine.make_folder()
    assert not left.exists()
