"""Files that are sent: all of them arrive as they are, or nothing is made of them or left there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.remote import requests, uploads
from engine.remote.downloads import offered_file
from engine.remote.requests import PIECE, ImportSource, OfferedFile, Write
from engine.remote.serving import handlers, temporary_folders
from engine.remote.serving.handlers import Cancelled, Handlers, Job
from engine.remote.serving.temporary_folders import Unfit
from engine.remote.uploads import Outgoing, UploadFailed
from engine.runs import run_info
from tests.support.remote_peer import Peer
from tests.support.sentences import sentence

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


class Session:
    """The other side, as far as an upload is concerned, without a connection."""

    def __init__(self) -> None:
        self.handlers = Handlers()
        self.waiting = self.most_waiting = 0
        self.change: Callable[[Write], Write] = lambda piece: piece

    def call(self, request: Any, timeout: float = 20.0) -> Any:
        """As that of a session."""
        return self.handlers.carry_out(request, Job(lambda done, total: None))

    def begin(self, request: Any) -> Callable[[float], Any]:
        """As that of a session."""
        self.waiting += 1
        self.most_waiting = max(self.waiting, self.most_waiting)
        request = self.change(request)

        def end(timeout: float) -> Any:
            self.waiting -= 1
            return self.call(request)

        return end


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session()
    yield session
    session.handlers.close()


def send(session: Session, *files: tuple[Path, str]) -> requests.TemporaryFolder:
    outgoing = [Outgoing(*file) for file in files]
    return uploads.send(session, outgoing, lambda done, total: None)  # type: ignore[arg-type]


def import_of(folder: requests.TemporaryFolder, name: str) -> requests.Import:
    return requests.Import(folder.number, [ImportSource(name, "laptop:/home/me/a.csv")])


def test_files_arrive_as_they_are_become_runs_and_are_deleted(
    session: Session, file: Path, tmp_path: Path, temporary: Path
) -> None:
    (tmp_path / "empty").touch()
    folder = send(session, (file, "0/früher: 50 %/a b.csv"), (tmp_path / "empty", "1/empty"))
    done = session.call(import_of(folder, "0/früher: 50 %/a b.csv"))
    (info,) = run_info.runs()
    assert (done.run_ids, done.titles, done.points) == ([info.id], [info.title], 100_000)
    assert info.spec.imported_from == "laptop:/home/me/a.csv"
    session.call(requests.Discard(folder.number))
    assert not list(temporary.iterdir())


def test_a_few_pieces_are_on_the_way_at_a_time(session: Session, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(20 * PIECE + 1))
    send(session, (tmp_path / "large", "0/large"))
    assert session.most_waiting == uploads.AHEAD


def test_what_arrives_differently_is_not_imported(session: Session, file: Path) -> None:
    session.change = lambda piece: msgspec.structs.replace(piece, content=piece.content[:-1] + b"7")
    folder = send(session, (file, "0/a.csv"))
    with pytest.raises(Unfit, match="did not arrive as it was"):
        session.call(import_of(folder, "0/a.csv"))
    assert run_info.runs() == []


def test_a_file_that_becomes_shorter_meanwhile_is_said(session: Session, file: Path) -> None:
    def shorten(piece: Write) -> Write:
        file.write_bytes(CSV[: PIECE + 1])
        return piece

    session.change = shorten
    with pytest.raises(UploadFailed, match=sentence("has-changed-while-it-was-sent").pattern):
        send(session, (file, "0/a.csv"))


def test_a_file_that_cannot_be_sent_is_named(session: Session, tmp_path: Path) -> None:
    with pytest.raises(UploadFailed, match=r"gone\.csv cannot be read"):
        send(session, (tmp_path / "gone.csv", "0/gone.csv"))
    odd = tmp_path / "odd\udcff.csv"
    odd.touch()
    with pytest.raises(UploadFailed, match=sentence("name-of-file-is-not-utf-8").pattern):
        send(session, (odd, f"0/{odd.name}"))


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
    session: Session, temporary: Path, files: list[OfferedFile]
) -> None:
    with pytest.raises(Unfit, match="could be received"):
        session.call(requests.MakeFolder(files))
    assert not list(temporary.iterdir())


def test_more_than_the_disk_has_is_refused_before_anything_is_sent(
    session: Session, temporary: Path
) -> None:
    with pytest.raises(Unfit, match="TMPDIR"):
        session.call(requests.MakeFolder([OfferedFile("a", 2**60, "")]))
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    "piece",
    [
        Write(1, "b", 0, b"x"),
        Write(1, "../a", 0, b"x"),
        Write(1, "a", 1, b"x"),
        Write(1, "a", -PIECE, b"x"),
        Write(1, "a", PIECE, b"x"),
        Write(1, "a", 0, b"xx"),
        Write(2, "a", 0, b"x"),
    ],
)
def test_only_what_was_announced_is_written(session: Session, piece: Write) -> None:
    session.call(requests.MakeFolder([OfferedFile("a", 1, "")]))
    with pytest.raises(Unfit):
        session.call(piece)


def test_no_other_file_is_imported(session: Session, file: Path) -> None:
    folder = send(session, (file, "0/a.csv"))
    for name in (f"../../{file.name}", str(file), ""):
        with pytest.raises(handlers.Refused, match="no list of files"):
            session.call(import_of(folder, name))


def test_a_fault_is_named_as_the_file_is_called_where_it_came_from(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("step,loss\nx,y\n")
    folder = send(session, (tmp_path / "a.csv", "0/a.csv"))
    with pytest.raises(handlers.Refused, match=r"laptop:/home/me/a\.csv, line 2"):
        session.call(import_of(folder, "0/a.csv"))


def test_a_cancelled_import_leaves_nothing(session: Session, file: Path) -> None:
    folder = send(session, (file, "0/a.csv"))
    job = Job(lambda done, total: None)
    job.cancelled.set()
    with pytest.raises(Cancelled):
        session.handlers.carry_out(import_of(folder, "0/a.csv"), job)
    assert run_info.runs() == []


def test_what_was_sent_goes_with_the_connection(file: Path, temporary: Path) -> None:
    with closing(Peer()) as peer:
        offered = offered_file(file, file.parent)
        folder = peer.ask(requests.MakeFolder([offered]))
        assert Path(folder.path).parent == temporary
        peer.ask(Write(folder.number, offered.path, 0, CSV[:PIECE]))
        refusal = peer.refusal(import_of(folder, offered.path))
        assert "did not arrive as it was" in refusal.text
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())


def test_a_folder_made_while_the_connection_ends_is_deleted(
    session: Session, temporary: Path
) -> None:
    session.handlers.close()
    with pytest.raises(Unfit, match="has ended"):
        session.call(requests.MakeFolder())
    assert not list(temporary.iterdir())


def test_what_a_killed_program_has_left_is_deleted_after_a_day(
    session: Session, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = temporary / f"{temporary_folders.PREFIX}left"
    left.mkdir()
    session.call(requests.MakeFolder())
    assert left.exists()
    monkeypatch.setattr(temporary_folders, "LEFTOVER_SECONDS", -1.0)
    session.call(requests.MakeFolder())
    assert not left.exists()
