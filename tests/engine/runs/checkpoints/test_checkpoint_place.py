"""Checkpoints that lie in a shared folder: listed, missed, and deleted with their run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.repair import file_check
from engine.repair.report import Outcome, Report, RunReport
from engine.runs import trash
from engine.runs.checkpoints import checkpoint_files, checkpoint_place
from engine.runs.checkpoints.checkpoint_files import Position
from engine.runs.checkpoints.checkpoint_place import PlaceAway
from engine.runs.trash import CannotDelete
from engine.supervisor.restart_policy import CheckpointSearch
from engine.system import paths


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def run(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in the trash's reach, with a checkpoint in the shared folder."""
    monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path / "home"))
    paths.prepare_home()
    folder = paths.create_run_folder()
    checkpoint_place.link(folder, checkpoint_place.make(folder, shared))
    (checkpoint_files.begin(folder, 4) / "rank0.pt").write_bytes(b"state")
    checkpoint_files.publish(
        folder, Position(step=4), strategy="torch/ddp", replicas=2, batch_size=8, parameters=1
    )
    return folder


def found(run: Path) -> CheckpointSearch:
    search = CheckpointSearch(run)
    search.join(60)
    return search


def test_they_are_used_as_those_in_the_run_folder(run: Path) -> None:
    assert [info.folder.name for info in checkpoint_files.checkpoints(run)] == ["step-00000004"]
    assert checkpoint_files.misplaced(run) == []
    assert (found(run).found, found(run).problem) == ("step-00000004", "")
    report = Report(repair=True)
    file_check.check_checkpoints(run, RunReport(report, run.name))
    assert report.findings == []
    checkpoint_files.rename_after(run, 0, 2)
    assert checkpoint_files.folders(run) == {}


def test_a_folder_that_is_away_is_no_run_without_checkpoints(run: Path, shared: Path) -> None:
    shared.rename(shared.with_name("away"))
    with pytest.raises(PlaceAway):
        checkpoint_place.check(run)
    assert "lie, is not there: mount" in found(run).problem
    report = Report(repair=True)
    file_check.check_checkpoints(run, RunReport(report, run.name))
    (finding,) = report.findings
    assert finding.outcome is Outcome.LEFT_ALONE
    shared.with_name("away").rename(shared)
    assert found(run).found == "step-00000004"


def test_an_emptied_trash_deletes_them(run: Path, shared: Path) -> None:
    trash._move(run, paths.trash_folder() / run.name, "deleted")
    away = shared.rename(shared.with_name("away"))
    with pytest.raises(CannotDelete, match="is not there: mount"):
        trash.empty([run.name])
    away.rename(shared)
    assert trash.empty([run.name]) == 1
    assert not list(shared.iterdir())


def test_a_copy_of_the_data_folder_deletes_nothing_of_the_original(
    run: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(paths.home(), tmp_path / "copy", symlinks=True)
    monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path / "copy"))
    checkpoint_place.remove(paths.run_folder(run.name))
    assert found(run).found == "step-00000004"


def test_a_link_of_the_user_is_not_followed(run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (run / checkpoint_files.FOLDER).unlink()
    (run / checkpoint_files.FOLDER).symlink_to(mine)
    checkpoint_place.remove(run)
    assert mine.exists()
