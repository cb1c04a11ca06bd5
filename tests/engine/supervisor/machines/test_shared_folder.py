"""Marks in a folder that machines share: read by the others, or a clause about why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.runs.checkpoints import checkpoint_files, checkpoint_place
from engine.supervisor.machines import shared_folder
from engine.supervisor.machines.shared_folder import (
    Mark,
    NotShared,
    SharedPlace,
    leave_mark,
    place_for,
    read_mark,
)
from tests.support.sentences import sentence


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run without checkpoints."""
    monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "runs" / "7"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def test_the_checkpoints_lie_there_once_all_marks_were_read(run: Path, shared: Path) -> None:
    place = place_for(run, str(shared))
    assert place
    assert place.stat().st_mode & 0o777 == 0o700
    head = SharedPlace(run, place)
    read_mark(place, head.mark(), "the head")
    head.read("gpus", leave_mark(place, "gpus"))
    assert not (run / checkpoint_files.FOLDER).exists()
    head.parts_of("gpus", "1").mkdir()
    head.use()
    assert (run / checkpoint_files.FOLDER).resolve() == place
    assert not list(place.glob("mark-*"))
    head.close()
    assert not head.parts_of("gpus", "1").exists()
    checkpoint_files.begin(run, 3)
    assert place_for(run, str(shared)) == place, "a resume has the same place"
    assert place_for(run, str(shared.parent)) is None, "checkpoints do not move"


def test_a_run_folder_that_is_moved_keeps_its_checkpoints(run: Path, shared: Path) -> None:
    place = place_for(run, str(shared))
    assert place
    head = SharedPlace(run, place)
    head.use()
    checkpoint_files.begin(run, 3)
    run.rename(run.with_name("moved"))
    head.close()
    assert checkpoint_files.unfinished(run.with_name("moved"))


def test_a_place_that_was_not_used_is_removed(run: Path, shared: Path) -> None:
    place = place_for(run, str(shared))
    assert place
    head = SharedPlace(run, place)
    head.mark()
    head.close()
    assert not list(shared.iterdir())


def test_a_run_with_checkpoints_of_its_own_keeps_them(run: Path, shared: Path) -> None:
    checkpoint_files.begin(run, 3)
    assert place_for(run, str(shared)) is None
    assert not list(shared.iterdir())


def test_a_folder_that_is_not_there_is_refused(run: Path, shared: Path) -> None:
    shared.rmdir()
    with pytest.raises(OSError, match=sentence("shared-cannot-be-used-here").pattern):
        place_for(run, str(shared))
    with pytest.raises(NotShared, match=r"the shared folder .*shared is not there"):
        read_mark(shared / "place", Mark("mark-of-head", "text"), "the head")


def test_another_folder_than_the_heads_is_refused(shared: Path) -> None:
    mark = Mark("mark-of-head", "text")
    place = shared / "place"
    why = "is another one than that of the head: a file of it cannot be read"
    with pytest.raises(NotShared, match=rf"{why} \(no such file or directory\)"):
        read_mark(place, mark, "the head", seconds=0.0)
    place.mkdir()
    (place / mark.name).write_text("old")
    with pytest.raises(NotShared, match=rf"{why} \(it has another content\)"):
        read_mark(place, mark, "the head", seconds=0.0)
    with pytest.raises(NotShared, match="is no name of a mark"):
        read_mark(place, Mark("../mark", "text"), "the head", seconds=0.0)


def test_a_full_or_foreign_folder_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = shared / "place"
    place.mkdir()

    def fail(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shared_folder, "sync_to_disk", fail)
        with pytest.raises(
            NotShared, match=sentence("cannot-be-written-no-space-left-on-device").pattern
        ):
            leave_mark(place, "gpus")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(NotShared, match=sentence("belongs-to-another-user-there").pattern):
        leave_mark(place, "gpus")


def test_a_place_that_is_away_is_told(run: Path, shared: Path) -> None:
    place = checkpoint_place.make(run, shared)
    checkpoint_place.link(run, place)
    place.rename(shared / "moved")
    with pytest.raises(OSError, match=sentence("folder-of-checkpoints-is-not-there").pattern):
        place_for(run, str(shared))
