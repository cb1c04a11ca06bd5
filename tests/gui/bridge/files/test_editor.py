"""A file is opened at a line: which editor, with which words, and what if there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from gui.bridge.background import Background
from gui.bridge.files import editor
from gui.bridge.files.editor import (
    CannotOpen,
    Editor,
    Place,
    command_problem,
    editor_words,
    open_place,
    place_in,
)

PLACE = Place(Path("/home/me/my net/train.py"), 12)
FILE = str(PLACE.file)


def words(wanted: str = "", installed: str = "", **environment: str) -> list[str]:
    """The words with which `PLACE` is opened where only these programs are installed."""
    there = installed.split()
    return editor_words(PLACE, wanted, environment, lambda name: name if name in there else None)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("code", ["code", "-g", f"{FILE}:12"]),
        ("/opt/x/subl", ["/opt/x/subl", f"{FILE}:12"]),
        ("kate", ["kate", "-l", "12", FILE]),
        ("pycharm", ["pycharm", "--line", "12", FILE]),
        ("gvim --remote-silent", ["gvim", "--remote-silent", "+12", FILE]),
        ("mine --at {line} '{file}'", ["mine", "--at", "12", FILE]),
        ("unknown", ["unknown", FILE]),
    ],
)
def test_each_editor_is_told_the_line_in_its_own_way(wanted: str, expected: list[str]) -> None:
    assert words(wanted) == expected


def test_visual_is_before_editor_before_what_is_installed() -> None:
    there = "code gedit kate xdg-open"
    assert words(installed=there, VISUAL="kate", EDITOR="gedit")[0] == "kate"
    assert words(installed=there, VISUAL="", EDITOR="gedit -s") == ["gedit", "-s", "+12", FILE]
    assert words(installed=there, VISUAL="gone")[0] == "code"
    assert words(installed="xdg-open") == ["xdg-open", FILE]
    assert words() == []


def test_an_editor_of_the_terminal_gets_a_terminal() -> None:
    vim = ["vim", "+12", FILE]
    assert words(installed="vim xterm", EDITOR="vim") == ["xterm", "-e", *vim]
    assert words(installed="vim kitty", EDITOR="vim", TERMINAL="kitty") == ["kitty", *vim]
    assert words(installed="vim code", EDITOR="vim")[0] == "code", "there is no terminal"
    assert words(installed="emacs xterm", EDITOR="emacs -nw")[:2] == ["xterm", "-e"]
    assert words(installed="emacs xterm", EDITOR="emacs") == ["emacs", "+12", FILE]


def test_a_name_with_braces_is_not_filled_twice() -> None:
    place = Place(Path("/tmp/{line}.py"), 3)
    assert editor_words(place, "e {file} {line}", {}, lambda _: None) == [
        "e",
        "/tmp/{line}.py",
        "3",
    ]


def test_a_place_has_an_absolute_path() -> None:
    assert place_in("/a/b:c.py:12") == (Path("/a/b:c.py"), 12)
    assert place_in("/a/b.py") == (Path("/a/b.py"), 0)
    assert place_in("recipe.py:12") is None
    assert place_in("") is None


def test_a_command_that_cannot_be_is_refused() -> None:
    assert "quotation" in command_problem("code '")
    assert "no program nowhere-to-be-found" in command_problem("nowhere-to-be-found -g")
    assert command_problem("") == command_problem("sh -c x") == ""


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    made = Background()
    yield made
    made.finish()


def program(folder: Path, text: str) -> str:
    file = folder / "my-editor"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return str(file)


@pytest.mark.usefixtures("processes")
def test_the_editor_of_the_settings_opens_the_file(
    background: Background, tmp_path: Path, qtbot: QtBot
) -> None:
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    made, told = Editor(settings, background), tmp_path / "told"
    made.set_command(program(tmp_path, f'echo "$@" > {told}.new; mv {told}.new {told}') + " {line}")
    file = tmp_path / "it.py"
    file.touch()
    made.open(Place(file, 7))
    qtbot.waitUntil(told.exists)
    assert told.read_text() == f"7 {file}\n"


@pytest.mark.usefixtures("processes")
def test_an_editor_that_fails_is_heard_of(
    background: Background, tmp_path: Path, qtbot: QtBot
) -> None:
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    made = Editor(settings, background)
    made.set_command(program(tmp_path, "exit 3"))
    with qtbot.waitSignal(made.failed) as failed:
        made.open(Place(Path(__file__), 7))
    assert "ended with the code 3" in failed.args[0]


def test_what_cannot_be_opened_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotOpen, match="not there any more"):
        open_place(Place(tmp_path / "gone.py", 1), "code")
    monkeypatch.setattr(editor.shutil, "which", lambda _: None)
    monkeypatch.delitem(os.environ, "VISUAL", raising=False)
    with pytest.raises(CannotOpen, match="No editor was found"):
        open_place(Place(Path(__file__), 1), "")
