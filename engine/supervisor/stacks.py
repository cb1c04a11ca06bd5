"""Where a worker's main thread is, from the stacks that it writes when it is asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.process import PROJECT
from engine.recipe_file import RecipeInfo
from engine.strategy import WorkerPlan

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x", re.MULTILINE)
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')


class Frame(NamedTuple):
    """A line that is being executed."""

    file: str
    line: int
    function: str


class Standstill(NamedTuple):
    """Where one worker stands."""

    plan: WorkerPlan
    text: str
    """A sentence."""

    where: str
    """File and line in the recipe, if it is there; or empty."""


def main_thread(stacks: str) -> list[Frame]:
    """The frames of the main thread, innermost first; empty when nothing was written.

    The interpreter's threads come newest first, so the main one is the last.
    """
    last = _THREAD.split(stacks)[-1]
    return [Frame(file, int(line), function) for file, line, function in _FRAME.findall(last)]


def standstill(plan: WorkerPlan, frames: Sequence[Frame], recipe: RecipeInfo) -> Standstill:
    """Where the worker of `plan` stands: in the recipe, if it is the recipe's doing."""
    if not frames:
        text = f"{plan.who} does not answer: it is halted, or waits for a device."
        return Standstill(plan, text, "")
    folder = Path(recipe.path).parent
    own = next((f for f in frames if _is_in(f, Path(recipe.path), recipe.builtin, folder)), None)
    telling = own or next((f for f in frames if Path(f.file).is_relative_to(PROJECT)), frames[0])
    text = f"{plan.who} is in {_spoken(telling)}"
    if telling != frames[0]:
        text += f", there in {_spoken(frames[0])}"
    return Standstill(plan, f"{text}.", f"{own.file}:{own.line}" if own else "")


def _is_in(frame: Frame, recipe: Path, builtin: bool, folder: Path) -> bool:
    file = Path(frame.file)
    if file == recipe:
        return True
    # A file that the recipe imports from beside itself is the user's too.
    return not builtin and file.is_relative_to(folder) and "site-packages" not in file.parts


def _spoken(frame: Frame) -> str:
    return f"{frame.function} ({Path(frame.file).name}:{frame.line})"
