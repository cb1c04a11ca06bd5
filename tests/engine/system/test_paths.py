"""The folders of runs and their numbers."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from engine.system import paths


def test_the_home_is_where_the_environment_says(traindeck_home: Path) -> None:
    assert paths.home() == traindeck_home
    assert paths.run_folder("7") == traindeck_home / "runs" / "7"


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(paths.HOME_VARIABLE, "here")
    assert paths.home() == tmp_path / "here"


def test_a_tilde_is_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv(paths.HOME_VARIABLE, "~/decks")
    assert paths.home() == tmp_path / "decks"


def test_by_default_it_is_the_folder_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(paths.HOME_VARIABLE)
    assert paths.home().is_absolute()
    assert paths.home().name == "traindeck"


def test_run_folders_are_numbered_and_ready(traindeck_home: Path) -> None:
    first, second = paths.create_run_folder(), paths.create_run_folder()
    assert [first, second] == [traindeck_home / "runs" / "1", traindeck_home / "runs" / "2"]
    assert {entry.name for entry in first.iterdir()} == {"logs", "checkpoints"}


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_run_folder_is_readable_by_its_owner_only() -> None:
    folder = paths.create_run_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_the_next_number_follows_the_largest_and_leaves_gaps_alone(traindeck_home: Path) -> None:
    (traindeck_home / "runs" / "9").mkdir(parents=True)
    (traindeck_home / "runs" / "10").mkdir()
    assert paths.create_run_folder().name == "11"


def test_the_number_of_a_run_that_is_gone_is_not_used_again(traindeck_home: Path) -> None:
    first = paths.create_run_folder()
    paths.create_run_folder().rename(traindeck_home / "elsewhere")
    assert paths.create_run_folder().name == "3"
    (traindeck_home / paths._LAST_NUMBER).write_text("no number")
    assert (first.name, paths.create_run_folder().name) == ("1", "4")


@pytest.mark.parametrize("name", ["", "runs", "trash", "below/it"])
def test_a_file_in_the_place_of_a_folder_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "data"
    monkeypatch.setenv(paths.HOME_VARIABLE, str(home / name if name == "below/it" else home))
    file = home if name in ("", "below/it") else home / name
    file.parent.mkdir(exist_ok=True)
    file.touch()
    with pytest.raises(paths.UnusableHome, match=f"because {file} is none"):
        paths.prepare_home()


def test_a_number_that_another_process_takes_at_this_moment_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths.create_run_folder()
    monkeypatch.setattr(paths, "_numbered", lambda folder: [])  # seen just before it was made
    assert paths.create_run_folder().name == "2"


def test_runs_are_listed_newest_first_without_what_is_no_run(traindeck_home: Path) -> None:
    for name in ("2", "10", "1", "0", "01", "notes", "3.old"):
        (traindeck_home / "runs" / name).mkdir(parents=True)
    assert paths.run_ids() == ["10", "2", "1"]


def test_before_the_first_run_there_are_none() -> None:
    assert paths.run_ids() == []


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_the_data_folder_is_private_under_every_umask(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.HOME_VARIABLE, str(tmp_path / "new" / "deck"))
    before = os.umask(umask)
    try:
        assert paths.prepare_home() == ""
        paths.create_run_folder()
        paths.private_folder("trash")
    finally:
        os.umask(before)
    folders = [each for each in (tmp_path / "new", *(tmp_path / "new").rglob("*")) if each.is_dir()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_data_folder_that_others_may_write_is_made_private_and_the_user_told(
    traindeck_home: Path,
) -> None:
    traindeck_home.mkdir()
    traindeck_home.chmod(0o775)
    assert f"could write to {traindeck_home}" in paths.prepare_home()
    assert stat.S_IMODE(traindeck_home.stat().st_mode) == 0o700
    assert paths.prepare_home() == ""


def test_a_data_folder_may_be_a_link_of_its_owner(traindeck_home: Path, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir(mode=0o700)
    traindeck_home.symlink_to(tmp_path / "large disk")
    assert paths.prepare_home() == ""
    assert paths.create_run_folder().is_dir()


def test_a_data_folder_that_others_may_only_read_stays_as_it_is(traindeck_home: Path) -> None:
    traindeck_home.mkdir()
    traindeck_home.chmod(0o755)
    assert paths.prepare_home() == ""
    assert stat.S_IMODE(traindeck_home.stat().st_mode) == 0o755
