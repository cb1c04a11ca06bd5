"""Cuts the command of a run into its program and its arguments, and joins them again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from engine.scripts.command import is_python

_CONTENT = re.compile(r"[0-9a-f]{16,}")


def split_command(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words up to the script, such as `-u train.py` or `-m pkg.train`, and the rest."""
    place = 0
    words = list(command)
    if words and (is_python(words[0]) or words[0].startswith("-")):
        place += is_python(words[0])
        while place < len(words) and words[place].startswith("-"):
            place += 1
            if words[place - 1] in ("-m", "-c"):
                break
    place = min(place + 1, len(words))
    return tuple(words[:place]), tuple(words[place:])


def program_of(script: str, working_folder: str) -> tuple[str, ...]:
    """Return how `script` is named in a command: as briefly as its folder allows."""
    path = Path(script)
    folder = Path(working_folder) if working_folder else path.parent
    name = str(path.relative_to(folder)) if path.is_relative_to(folder) else script
    is_program = not name.endswith(".py") and "/" not in name
    return (f"./{name}" if is_program else name,)


def name_of(script: str) -> str:
    """Return what to call a script, with its folder: many of them are a `train.py`.

    One that has come from another machine lies in a folder that is named by its content.
    """
    path = Path(script)
    is_told = path.parent.name and not _CONTENT.fullmatch(path.parent.name)
    return f"{path.parent.name}/{path.name}" if is_told else path.name
