"""What the window remembers from one time to the next: `window.ini` in the data folder."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtCore import QSettings

_LINE = re.compile(r"|;.*|\[[\w%. ]+\]|[\w%.\\/ -]+=.*")
"""What Qt writes. Qt itself reads anything, warns, and carries on with whatever it makes of it."""


def open_settings(path: Path) -> tuple[QSettings, str]:
    """The settings in `path`, and a sentence if that was damaged, else an empty one.

    A damaged file is kept beside the new one, as `.bad`.
    """
    trouble = _set_aside(path) if _is_damaged(path) else ""
    return QSettings(str(path), QSettings.Format.IniFormat), trouble


def _is_damaged(path: Path) -> bool:
    try:
        lines = path.read_bytes().decode().splitlines()
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True
    return not all(_LINE.fullmatch(line) and "\0" not in line for line in lines)


def _set_aside(path: Path) -> str:
    aside = path.with_name(f"{path.name}.bad")
    try:
        path.replace(aside)
    except OSError as error:
        return f"{path} is damaged and cannot be set aside: {error}."
    return (
        f"{path.name} was damaged and is set aside as {aside.name}: the window has its first "
        "layout and theme again."
    )
