"""What another machine says is not believed, and a broken connection says what it means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.cli.commands.runs.exchange import export_runs
from engine.cli.output import Refused
from engine.exports.export_runs import CannotExport
from engine.interface.encoding import Method
from engine.interface.engine import Engine
from engine.interface.failures import Refusal, error_of
from engine.interface.values import Exported, NotConnected, OfferedFile, TemporaryFolder
from engine.remote import short_session
from engine.remote.remote_engine import remote_engine
from engine.runs.run_info import get_run
from engine.system.machines import RemoteMachine
from main import main
from tests.support.recorded_runs import RecordedRun

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
    run = RecordedRun()
    run.begin()
    run.store.close()
    session.answers["get_run"] = get_run(run.id)

    @contextmanager
    def open_session(machine: RemoteMachine) -> Iterator[tuple[Engine, None]]:
        yield remote_engine(machine.name, session.call), None

    monkeypatch.setattr(short_session, "open_session", open_session)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return session


def export(session: Session, format: str, output: Path | None = None) -> None:
    session.answers["discard_folder"] = None
    export_runs(remote_engine("gpus", session.call), ["1"], format, output, json=False)


EMPTY = hashlib.sha256().hexdigest()


@pytest.mark.parametrize("format", ["html", "csv"])
@pytest.mark.parametrize("name", ["../out", "/tmp/out", "..", "", "a\\b", "a\nb"])
def test_no_file_of_the_other_machine_leaves_the_folder(
    session: Session, tmp_path: Path, name: str, format: str
) -> None:
    session.answers["export_runs"] = Exported(1, [OfferedFile(name, 0, EMPTY)])
    with pytest.raises(Refused, match=r"sends what was not asked for|no name of a file"):
        export(session, format)
    assert not list((tmp_path / "here").rglob("*"))


@pytest.mark.parametrize("name", ["a/b", ".profile", "out.html"])
def test_what_the_other_machine_calls_an_export_is_not_its_name_here(
    session: Session, tmp_path: Path, name: str
) -> None:
    session.answers["export_runs"] = Exported(1, [OfferedFile(name, 0, EMPTY)])
    export(session, "html")
    assert [each.name for each in (tmp_path / "here").rglob("*")] == ["traindeck-gpus-1.html"]


def test_a_target_that_is_there_is_refused_before_anything_is_done(
    session: Session, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    target.touch()
    session.answers.clear()
    with pytest.raises(Refused, match="exists already"):
        export(session, "html", target)
    with pytest.raises(Refused, match="cannot be written"):
        export(session, "html", tmp_path / "no" / "way")


def test_a_lost_connection_says_what_it_means(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("step,loss\n1,2\n")
    session.answers |= {"export_runs": LOST, "write_piece": None, "import_runs": LOST}
    session.answers["make_folder"] = TemporaryFolder(1, "/there")
    for words, said in (
        (["export", "1", "--format", "html"], "Nothing was exported."),
        (["import", str(tmp_path / "a.csv")], "is not known: `python main.py runs --on gpus`"),
    ):
        assert main([*words, "--on", "gpus"]) == 1
        assert re.search(f"closed the connection. .*{said}", capsys.readouterr().err)


def test_a_refusal_of_the_other_machine_names_it(session: Session) -> None:
    refusal = Refusal("No such format.", "CannotExport")
    session.answers["export_runs"] = error_of(refusal, "gpus", {})
    with pytest.raises(CannotExport, match=r"^gpus: No such format"):
        export(session, "html")
