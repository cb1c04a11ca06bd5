"""Tests `engine.planning.own_data_folder`: nothing is left of it, whatever happens."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from engine.planning.end_runs import HELD
from engine.planning.own_data_folder import PREFIX, own_data_folder
from engine.system import paths

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_runs_go_there_and_it_is_deleted(temporary: Path) -> None:
    before = dict(os.environ)
    with own_data_folder("test", OTHER="1") as home:
        assert paths.home() == home
        assert home.parent == temporary
        assert os.environ["OTHER"] == "1"
        paths.create_run_folder()
    assert dict(os.environ) == before
    assert list(temporary.iterdir()) == []


def test_it_is_deleted_after_an_error(temporary: Path) -> None:
    with pytest.raises(FileNotFoundError), own_data_folder("test"):
        (paths.create_run_folder() / "gone").read_text()
    assert list(temporary.iterdir()) == []


def test_what_a_power_cut_has_left_is_deleted_by_the_next(temporary: Path) -> None:
    left, foreign = temporary / f"{PREFIX}race-x", temporary / f"{PREFIX}race-y"
    for folder in (left, foreign, temporary / "traindeck-run-z"):
        (folder / "runs").mkdir(parents=True)
    (left / HELD).touch()  # the other one is being made at this moment
    with own_data_folder("test") as home:
        assert sorted(temporary.iterdir()) == sorted([home, foreign, temporary / "traindeck-run-z"])
