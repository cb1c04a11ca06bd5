"""The notes of a person on a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.runs.run_notes import (
    DAMAGED_NAME,
    FILE_NAME,
    ChangedNotes,
    RunNotes,
    UnreadableNotes,
    change_notes,
    read_notes,
    tags_of,
    write_notes,
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read_notes(tmp_path) == RunNotes()
    notes = RunNotes(name='a "name" = 5', tags=("keep", "größer"), note="one\n\ntwo\\ three '''\n")
    write_notes(tmp_path, notes)
    assert read_notes(tmp_path) == notes
    write_notes(tmp_path, RunNotes())
    assert read_notes(tmp_path) == RunNotes()
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]


def test_damaged_notes_are_reported_and_kept_when_new_ones_are_written(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("name = 'half")
    with pytest.raises(UnreadableNotes, match=r"cannot be read: .*notes\.toml"):
        read_notes(tmp_path)
    write_notes(tmp_path, RunNotes(name="new"))
    assert read_notes(tmp_path).name == "new"
    assert (tmp_path / DAMAGED_NAME).read_text() == "name = 'half"


def test_a_failed_write_leaves_the_old_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(tmp_path, RunNotes(name="old"))

    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_notes(tmp_path, RunNotes(name="new"))
    assert read_notes(tmp_path).name == "old"
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]


def test_tags_are_trimmed_sorted_and_there_once() -> None:
    assert tags_of(" keep,base  line,, keep \nAlpha") == ("Alpha", "base line", "keep")


def test_what_a_person_has_left_alone_stays_as_others_have_written_it(tmp_path: Path) -> None:
    before = RunNotes(name="old", tags=("a", "b"))
    write_notes(tmp_path, RunNotes(name="of another window", tags=("a", "b", "c")))
    change_notes(tmp_path, ChangedNotes(before, RunNotes(name="old", tags=("b", "d"), note="new")))
    assert read_notes(tmp_path) == RunNotes(
        name="of another window", tags=("b", "c", "d"), note="new"
    )
    change_notes(tmp_path, ChangedNotes(before, before))
    assert read_notes(tmp_path).name == "of another window"


def test_a_change_of_damaged_notes_keeps_what_the_person_has_read(tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text("[")
    before = RunNotes(name="old", tags=("a",))
    change_notes(tmp_path, ChangedNotes(before, replace(before, name="new")))
    assert read_notes(tmp_path) == RunNotes(name="new", tags=("a",))


def test_two_notes_are_both_kept(tmp_path: Path) -> None:
    before = RunNotes(note="old")
    write_notes(tmp_path, RunNotes(note="old AA"))
    change_notes(tmp_path, ChangedNotes(before, RunNotes(note="old BB")))
    assert read_notes(tmp_path).note == "old BB\n\nold AA"
    change_notes(tmp_path, ChangedNotes(read_notes(tmp_path), RunNotes(note="")))
    assert read_notes(tmp_path).note == ""
