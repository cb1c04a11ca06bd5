"""Tests `engine.planning.own_data_folder`: nothing is left of it, whatever happens."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil
import pytest

from engine.planning.own_data_folder import PREFIX, own_data_folder
from engine.processes.held_folder import HELD
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
    descriptors = psutil.Process().num_fds()
    with own_data_folder("again"):
        pass
    assert psutil.Process().num_fds() == descriptors


def test_it_is_deleted_after_an_error(temporary: Path) -> None:
    with pytest.raises(FileNotFoundError), own_data_folder("test"):
        (paths.create_run_folder() / "gone").read_text()
    assert list(temporary.iterdir()) == []


def test_what_a_power_cut_has_left_is_deleted_by_the_next(temporary: Path) -> None:
    left, new, half = (temporary / f"{PREFIX}race-{each}" for each in "xyw")
    for folder in (left, new, half, temporary / "traindeck-run-z"):
        (folder / "runs").mkdir(parents=True)
    (left / HELD).touch()  # `new` is being made at this moment, `half` was being deleted
    os.utime(half, (0, 0))
    with own_data_folder("test") as home:
        assert sorted(temporary.iterdir()) == sorted([home, new, temporary / "traindeck-run-z"])
