"""What another machine says is not believed, and a broken connection says what it means."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.cli import transfers
from engine.cli.output import NoAnswer, Refused
from engine.imports.csv_tables import ColumnNames
from engine.interface.encoding import Method
from engine.interface.engine import Engine
from engine.interface.failures import Refusal, error_of
from engine.interface.values import Exported, NotConnected, OfferedFile, TemporaryFolder
from engine.remote.machines import RemoteMachine
from engine.remote.remote_engine import remote_engine
from tests.support.sentences import sentence

MACHINE = RemoteMachine(name="gpus", destination="me@gpus")
LOST = NotConnected("gpus has closed the connection.")


class Session:
    """Answers each call by what stands for its method: a value, or an exception."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    def call(self, method: Method, _: Mapping[str, Any]) -> Any:
        """As that of a session."""
        found = self.answers[method.name]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    session = Session()

    @contextmanager
    def open_session(machine: RemoteMachine) -> Iterator[tuple[Engine, None]]:
        yield remote_engine(machine.name, session.call), None

    monkeypatch.setattr(transfers, "open_session", open_session)
    monkeypatch.chdir(tmp_path)
    return session


EMPTY = hashlib.sha256().hexdigest()


@pytest.mark.parametrize("format", ["html", "csv"])
@pytest.mark.parametrize("name", ["../out", "/tmp/out", "..", "", "a\\b", "a\nb"])
def test_no_file_of_the_other_machine_leaves_the_folder(
    session: Session, tmp_path: Path, name: str, format: str
) -> None:
    session.answers["export_runs"] = Exported(1, [OfferedFile(name, 0, EMPTY)])
    with pytest.raises(Refused, match="no name of a file"):
        transfers.export_from(MACHINE, ["1"], format, None)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("name", ["a/b", ".profile", "out.html"])
def test_what_the_other_machine_calls_an_export_is_not_its_name_here(
    session: Session, tmp_path: Path, name: str
) -> None:
    session.answers["export_runs"] = Exported(1, [OfferedFile(name, 0, EMPTY)])
    target, _ = transfers.export_from(MACHINE, ["1"], "html", None)
    assert list(tmp_path.rglob("*")) == [target]
    assert target.name == "traindeck-gpus-1.html"


def test_a_target_that_is_there_is_refused_before_anything_is_done(
    session: Session, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    target.touch()
    with pytest.raises(Refused, match="exists already"):
        transfers.export_from(MACHINE, ["1"], "html", target)
    with pytest.raises(Refused, match="exists already"), transfers.report_from(MACHINE, target):
        pass
    with pytest.raises(Refused, match="cannot be written"):
        transfers.export_from(MACHINE, ["1"], "html", tmp_path / "no" / "way")


def test_a_lost_connection_says_what_it_means(session: Session, tmp_path: Path) -> None:
    session.answers["export_runs"] = LOST
    with pytest.raises(NoAnswer, match=sentence("closed-connection-nothing-was-exported").pattern):
        transfers.export_from(MACHINE, ["1"], "html", None)
    session.answers["list_checkpoints"] = LOST
    with pytest.raises(NoAnswer, match="Nothing was kept of the checkpoint"):
        transfers.fetch_checkpoint(MACHINE, "1", lambda found: (found[0], tmp_path / "out"))
    (tmp_path / "a.csv").write_text("step,loss\n1,2\n")
    session.answers["make_folder"] = TemporaryFolder(1, "/there")
    session.answers["write_piece"] = LOST
    with pytest.raises(NoAnswer, match="Nothing was imported"):
        transfers.import_to(MACHINE, [tmp_path / "a.csv"], ColumnNames())
    session.answers |= {"write_piece": None, "import_runs": LOST}
    with pytest.raises(NoAnswer, match=r"is not known: .*runs --on gpus"):
        transfers.import_to(MACHINE, [tmp_path / "a.csv"], ColumnNames())


def test_a_refusal_of_the_other_machine_names_it(session: Session) -> None:
    refusal = Refusal("No such format.", "CannotExport")
    session.answers["export_runs"] = error_of(refusal, MACHINE.name, {})
    with pytest.raises(Refused, match=r"^gpus: No such format"):
        transfers.export_from(MACHINE, ["1"], "html", None)


def test_without_a_report_none_comes(session: Session, tmp_path: Path) -> None:
    session.answers = {"make_folder": TemporaryFolder(1, "/there"), "list_folder": []}
    with transfers.report_from(MACHINE, tmp_path / "report.txt") as file:
        assert file == "/there/report.txt"
    assert not list(tmp_path.iterdir())
