"""Opens a file at a line in the user's editor."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, QSettings, Signal

from gui.bridge.background import Background

SETTING = "editor/command"
"""Key of the settings: the user's command, such as `code -g {file}:{line}`."""

_EARLY_SECONDS = 1.0
"""An editor that fails within this time could not open the file."""

_PLACE = re.compile(r"(.+):(\d+)")

_PLUS = ("+{line}", "{file}")
_COLON = ("{file}:{line}",)
_GOTO = ("-g", "{file}:{line}")
_DASH_L = ("-l", "{line}", "{file}")
_DASH_LINE = ("--line", "{line}", "{file}")
_FILE = ("{file}",)

_TERMINAL_EDITORS = {
    "vim": _PLUS, "nvim": _PLUS, "vi": _PLUS, "nano": _PLUS, "micro": _PLUS, "kak": _PLUS,
    "joe": _PLUS, "jed": _PLUS, "mg": _PLUS, "ne": _PLUS, "mcedit": _PLUS, "hx": _COLON,
    "helix": _COLON,
}  # fmt: skip
_WINDOW_EDITORS = {
    "code": _GOTO, "codium": _GOTO, "code-insiders": _GOTO, "cursor": _GOTO, "windsurf": _GOTO,
    "zed": _COLON, "zeditor": _COLON, "subl": _COLON, "sublime_text": _COLON, "lapce": _COLON,
    "kate": _DASH_L, "kwrite": _DASH_L, "geany": _DASH_L, "mousepad": _DASH_L,
    "pycharm": _DASH_LINE, "charm": _DASH_LINE, "idea": _DASH_LINE, "gedit": _PLUS, "xed": _PLUS,
    "pluma": _PLUS, "gvim": _PLUS, "emacs": _PLUS, "emacsclient": _PLUS, "xemacs": _PLUS,
}  # fmt: skip
"""The arguments with which each editor goes to a line."""

_TERMINALS = {
    "x-terminal-emulator": ("-e",), "gnome-terminal": ("--",), "konsole": ("-e",),
    "xfce4-terminal": ("-x",), "alacritty": ("-e",), "kitty": (), "foot": (), "xterm": ("-e",),
}  # fmt: skip

Find = Callable[[str], str | None]


class CannotOpen(Exception):
    """The file could not be opened in an editor; the text is a sentence."""


class Place(NamedTuple):
    """A line of a file."""

    file: Path
    line: int
    """From 1; 0: no line in particular."""


def place_in(where: str) -> Place | None:
    """Return the place that `where` names (`/home/me/train.py:12`); None unless it is absolute."""
    match = _PLACE.fullmatch(where)
    file, line = (Path(match[1]), int(match[2])) if match else (Path(where), 0)
    return Place(file, line) if where and file.is_absolute() else None


class Editor(QObject):
    """Opens places of files in the editor of the settings, or in the one of this desktop."""

    failed = Signal(str)
    """A sentence: why a file was not opened."""

    def __init__(
        self, settings: QSettings, background: Background, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._settings, self._background = settings, background

    @property
    def command(self) -> str:
        """The user's command; empty: the editor of the environment or of the desktop."""
        return str(self._settings.value(SETTING, ""))

    def set_command(self, command: str) -> None:
        """Remember the user's command; see `command_problem`."""
        self._settings.setValue(SETTING, command.strip())

    def open(self, place: Place) -> None:
        """Open `place` in the background. Emits `failed` if that does not succeed."""
        wanted = self.command
        self._background.run(lambda: open_place(place, wanted), lambda _: None, self._fail)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, CannotOpen):
            raise error
        self.failed.emit(str(error))


def command_problem(command: str) -> str:
    """Return why `command` cannot be used for an editor, in a sentence; empty if it can."""
    try:
        words = shlex.split(command)
    except ValueError:
        return "The command has a quotation mark without its partner."
    if words and shutil.which(words[0]) is None:
        return f"There is no program {words[0]}."
    return ""


def open_place(place: Place, wanted: str) -> None:
    """Open `place` with the command `wanted`, or with the first editor found if it is empty.

    Waits a second for an editor that fails at once. Raises CannotOpen.
    """
    if not place.file.is_file():
        raise CannotOpen(f"{place.file} is not there any more.")
    words = editor_words(place, wanted, os.environ, shutil.which)
    if not words:
        text = "No editor was found. Set the variable VISUAL, or choose one under File → Editor…"
        raise CannotOpen(text)
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise CannotOpen(f"{words[0]} could not be started: {error}.") from error
    try:
        code = process.wait(_EARLY_SECONDS)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True, name="reap").start()
        return
    if code:
        raise CannotOpen(f"{words[0]} did not open {place.file}: it ended with the code {code}.")


def editor_words(
    place: Place, wanted: str, environment: Mapping[str, str], find: Find
) -> list[str]:
    """Return the words of the command that opens `place`; empty if there is no editor.

    `wanted`: the user's command; empty: VISUAL, EDITOR, an editor that is installed, xdg-open.
    `find` returns the path of a program, or None.
    """
    if wanted:
        return _filled(shlex.split(wanted), place)
    named = [environment.get(name, "") for name in ("VISUAL", "EDITOR")]
    for command in filter(None, named):
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if words and find(words[0]) and (found := _in_a_window(words, place, environment, find)):
            return found
    for name in _WINDOW_EDITORS:
        if find(name):
            return _filled([name], place)
    if find("xdg-open") and place.file.suffix in (".py", ".toml", ".yaml", ".txt"):
        return ["xdg-open", str(place.file)]  # which knows no lines
    for name in _TERMINAL_EDITORS:
        if find(name) and (found := _in_a_window([name], place, environment, find)):
            return found
    return []


def _in_a_window(
    words: Sequence[str], place: Place, environment: Mapping[str, str], find: Find
) -> list[str]:
    """Return the command for the editor `words`; empty if it needs a terminal and none is there."""
    filled, name = _filled(words, place), Path(words[0]).name
    in_terminal = name in _TERMINAL_EDITORS or (
        name.startswith("emacs") and not {"-nw", "-t", "-tty", "--tty"}.isdisjoint(words)
    )
    if not in_terminal:
        return filled
    own = environment.get("TERMINAL", "")
    for terminal in filter(None, (own, *_TERMINALS)):
        if find(terminal):
            return [terminal, *_TERMINALS.get(Path(terminal).name, ("-e",)), *filled]
    return []


def _filled(words: Sequence[str], place: Place) -> list[str]:
    """Return `words` with file and line, in the way of their editor if they do not say where."""
    name = Path(words[0]).name
    if not any("{file}" in word for word in words):
        known = {**_WINDOW_EDITORS, **_TERMINAL_EDITORS}
        words = [*words, *(known.get(name, _FILE) if place.line else _FILE)]
    values = {"{file}": str(place.file), "{line}": str(place.line or 1)}
    return [re.sub(r"\{file\}|\{line\}", lambda found: values[found[0]], word) for word in words]
