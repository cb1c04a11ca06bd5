"""A shown file changes on disk: written, replaced, gone and back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from gui.bridge.files.file_watch import FileWatch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text("epochs = 1\n")
    return file


@pytest.fixture
def watch(file: Path, qtbot: QtBot) -> FileWatch:
    watch = FileWatch()
    watch.watch(file)
    return watch


def replace(file: Path, text: str) -> None:
    """Write as many editors do: a new file, which takes the name of the old one."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_each_writing_and_replacing_is_noticed(watch: FileWatch, file: Path, qtbot: QtBot) -> None:
    for text in ("epochs = 22\n", "epochs = 333\n"):
        with qtbot.waitSignal(watch.changed) as told:
            file.write_text(text)
        assert told.args == [str(file)]
    for text in ("epochs = 4444\n", "epochs = 55555\n"):
        with qtbot.waitSignal(watch.changed):
            replace(file, text)
    with qtbot.waitSignal(watch.changed):
        file.write_text("epochs = 666666\n")


def test_a_deleted_file_is_noticed_when_back(watch: FileWatch, file: Path, qtbot: QtBot) -> None:
    file.unlink()
    watch.check()
    with qtbot.waitSignal(watch.changed):
        file.write_text("epochs = 7\n")


def test_a_path_that_no_file_can_have_is_a_file_that_is_not_there(watch: FileWatch) -> None:
    watch.watch(Path("train\0.py"))
    watch.check()


def test_another_file_and_one_that_is_watched_no_more_say_nothing(
    watch: FileWatch, file: Path, qtbot: QtBot
) -> None:
    with qtbot.assertNotEmitted(watch.changed, wait=500):
        (file.parent / "other.py").write_text("pass\n")
    watch.watch(None)
    with qtbot.assertNotEmitted(watch.changed, wait=500):
        file.write_text("epochs = 8\n")
        watch.check()


def test_a_silent_disk_is_looked_at_when_asked(watch: FileWatch, file: Path, qtbot: QtBot) -> None:
    watch._watcher.removePaths([*watch._watcher.files(), *watch._watcher.directories()])
    os.utime(file, ns=(0, 0))
    with qtbot.waitSignal(watch.changed, timeout=0):
        watch.check()
