"""Damaged files: each is named, and everything else works."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from pytestqt.qtbot import QtBot

import main
from engine import client
from engine.messages.events import RunEnded
from engine.runs import run_info
from engine.runs.store.run_store import FILE_NAME as STORE
from engine.runs.store.store_reader import RunReader
from engine.spec.spec_file import FILE_NAME as SPEC
from gui.bridge.files.settings_file import open_settings
from tests.gui.conftest import OpenApp, Record, open_app, record, windows_end_with_their_test

__all__ = ["open_app", "record", "windows_end_with_their_test"]

DAMAGE: dict[str, Callable[[Path], object]] = {
    "an empty spec": lambda folder: (folder / SPEC).write_text(""),
    "no spec": lambda folder: (folder / SPEC).unlink(),
    "half a spec": lambda folder: (folder / SPEC).write_bytes((folder / SPEC).read_bytes()[:200]),
    "a spec of noise": lambda folder: (folder / SPEC).write_bytes(bytes(range(256))),
    "a store of noise": lambda folder: (folder / STORE).write_bytes(bytes(range(256)) * 40),
    "half a page of store": lambda folder: (folder / STORE).write_bytes(b"SQLite format 3\0" * 9),
    "a status of text": lambda folder: _in_store(folder, "UPDATE status SET body = 'what?'"),
    "a status of noise": lambda folder: _in_store(folder, "UPDATE status SET body = x'c1c1c1'"),
}


def _in_store(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / STORE)) as connection, connection:
        connection.execute(statement)


@pytest.fixture
def damaged(record: Record) -> Callable[[str], Path]:
    """Makes three finished runs, damages the second one, and returns its folder."""

    def make(how: str) -> Path:
        recordings = [record() for _ in range(3)]
        for recording in recordings:
            recording.begin()
            recording.add(RunEnded("finished", "All 2 epochs are done."))
            recording.store.close()
        folder: Path = recordings[1].folder
        for beside in folder.glob(f"{STORE}-*"):
            beside.unlink()
        DAMAGE[how](folder)
        return folder

    return make


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_run_is_listed_with_the_reason_and_the_others_work(
    how: str, damaged: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damaged(how)
    if how == "no spec":  # in a young run it may not be written yet
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_info, "LONGEST_START", -1.0)
            runs = run_info.all_runs()
    else:
        runs = run_info.all_runs()
    assert [run.id for run in runs] == ["3", "2", "1"]
    [unreadable] = [run for run in runs if isinstance(run, client.UnreadableRun)]
    assert (unreadable.id, unreadable.folder) == ("2", folder)
    assert unreadable.reason.startswith("Run 2 cannot be read: ")
    assert [run.id for run in client.runs()] == ["3", "1"]
    assert main.main(["show", "2"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("Run 2 cannot be read: ")
    assert "Traceback" not in printed.err
    assert main.main(["show", "3"]) == 0


def test_the_command_line_lists_a_damaged_run(
    damaged: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    damaged("a store of noise")
    assert main.main(["runs"]) == 0
    printed = capsys.readouterr()
    assert [line.split()[:2] for line in printed.out.splitlines()[1:]] == [
        ["3", "finished"],
        ["2", "unreadable"],
        ["1", "finished"],
    ]
    assert printed.err.startswith("Run 2 cannot be read: ")
    assert main.main(["runs", "--json"]) == 0
    states = [run["state"] for run in json.loads(capsys.readouterr().out)]
    assert states == ["finished", "unreadable", "finished"]


@pytest.mark.parametrize("how", ["a spec of noise", "a store of noise"])
def test_the_window_opens_lists_a_damaged_run_and_shows_the_others(
    how: str, damaged: Callable[[str], Path], open_app: OpenApp, qtbot: QtBot
) -> None:
    damaged(how)
    window = open_app()
    history = window.run_list
    rows = [history.model().index(row, 0) for row in range(3)]
    assert [row.data().rpartition("#")[2] for row in rows] == ["3", "1", "2"]
    assert rows[2].data(Qt.ItemDataRole.ToolTipRole).startswith("Run 2 cannot be read: ")
    history.setCurrentIndex(rows[2])
    assert "cannot be read" in window.window.statusBar().currentMessage()
    assert not history.resume.isEnabled()
    shown: list[str] = []
    window.rooms.run.reader.status_changed.connect(lambda info: shown.append(info.id))
    history.setCurrentIndex(rows[1])
    qtbot.waitUntil(lambda: "1" in shown)


def test_damaged_settings_of_the_window_are_set_aside(
    traindeck_home: Path, open_app: OpenApp
) -> None:
    traindeck_home.mkdir()
    settings = traindeck_home / "window.ini"
    settings.write_bytes(b"[General]\ntheme=light\n\0\xff\xfe\n")
    window = open_app()
    assert "renamed to window.ini.bad" in window.window.statusBar().currentMessage()
    assert (traindeck_home / "window.ini.bad").read_bytes().startswith(b"[General]\ntheme=light")
    window.settings.setValue("theme", "dark")
    window.window.close()
    again, trouble = open_settings(settings)
    assert trouble == "", "the settings that the window wrote are valid"
    assert again.value("theme") == "dark"
    assert again.value("window/geometry")
    assert again.status() is QSettings.Status.NoError


def test_settings_of_the_wrong_type_are_ignored(traindeck_home: Path, open_app: OpenApp) -> None:
    traindeck_home.mkdir()
    (traindeck_home / "window.ini").write_text(
        "[General]\ntheme=1, 2, 3\n[window]\ngeometry=@ByteArray(\\x1\\xd9)\nstate=@Point(3 4)\n"
    )
    assert open_app().window.isVisible()


def test_a_column_of_another_type_is_a_damaged_store(damaged: Callable[[str], Path]) -> None:
    folder = damaged("half a spec")
    for statement in (
        "UPDATE event SET body = 'text'",
        "UPDATE series SET count = 'many'",
        "UPDATE status SET generation = x'00'",
        "UPDATE event SET time = 'noon'",
    ):
        _in_store(folder, "INSERT OR IGNORE INTO series VALUES (1, 'train/loss', 1)")
        _in_store(folder, statement)
    with RunReader(folder) as reader:
        for read in (reader.generation, reader.counts, lambda: reader.events_after(0)):
            with pytest.raises(sqlite3.DatabaseError):
                read()
