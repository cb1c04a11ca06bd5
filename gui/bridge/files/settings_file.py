"""Opens the settings of the window: `window.ini` in the data folder."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtCore import QSettings

from engine.files.atomic_file import open_to_append
from engine.system import paths

_LINE = re.compile(r"|;.*|\[[\w%. ]+\]|[\w%.\\/ -]+=.*")
"""Matches each line that Qt writes. It finds damage, because Qt reports none."""


def window_settings() -> tuple[QSettings, str]:
    """Create the data folder if needed; return the result of `open_settings` for the window."""
    paths.prepare_home()
    file = paths.home() / "window.ini"
    if not file.exists():
        open_to_append(file).close()  # for its owner only, which Qt keeps
    return open_settings(file)


def open_settings(path: Path) -> tuple[QSettings, str]:
    """Return the settings in `path`, and a sentence if the file was damaged (else "").

    A damaged file is kept beside the new one, as `.bad`.
    """
    problem = _rename_damaged(path) if _is_damaged(path) else ""
    return QSettings(str(path), QSettings.Format.IniFormat), problem


def _is_damaged(path: Path) -> bool:
    try:
        lines = path.read_bytes().decode().splitlines()
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True
    return not all(_LINE.fullmatch(line) and "\0" not in line for line in lines)


def _rename_damaged(path: Path) -> str:
    renamed = path.with_name(f"{path.name}.bad")
    try:
        path.replace(renamed)
    except OSError as error:
        return f"{path} is damaged and cannot be renamed: {error}."
    return (
        f"{path.name} was damaged and is renamed to {renamed.name}: the window has the default "
        "layout and theme."
    )
