"""Where a worker is, from the stacks of its threads that it writes when it is asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.spec.recipe_file import RecipeInfo
from engine.spec.strategy import WorkerPlan
from engine.system.process import PROJECT

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


def working_threads(stacks: str) -> list[list[Frame]]:
    """The frames of the main thread, innermost first, and of those that work for it; empty when
    nothing was written.

    The interpreter's threads come newest first, so the main one is the last. It may wait for a
    thread of the framework's, in which TensorFlow calls what a recipe gave to `py_function`, or for
    one of ours. What else Python has started minds its own business.
    """
    *others, main = [
        [Frame(file, int(line), function) for file, line, function in _FRAME.findall(thread)]
        for thread in _THREAD.split(stacks)
    ]
    if not main:
        return []
    return [main, *(frames for frames in others if frames and _works(frames))]


def _works(frames: Sequence[Frame]) -> bool:
    was_started_by_python = Path(frames[-1].file).name == "threading.py"
    return not was_started_by_python or any(_is_ours(frame) for frame in frames)


def _is_ours(frame: Frame) -> bool:
    return Path(frame.file).is_relative_to(PROJECT / "engine")


def standstill(
    plan: WorkerPlan, threads: Sequence[Sequence[Frame]], recipe: RecipeInfo
) -> Standstill:
    """Where the worker of `plan` stands: in the recipe, if it is the recipe's doing.

    `threads` are the frames of its main thread and of those that work for it.
    """
    if not threads:
        text = f"{plan.who} does not answer: it is halted, or waits for a device."
        return Standstill(plan, text, "")
    folder = Path(recipe.path).parent
    frames, own = threads[0], None
    for thread in threads:
        found = [f for f in thread if _is_in(f, Path(recipe.path), recipe.builtin, folder)]
        if found:
            frames, own = thread, found[0]
            break
    telling = own or next((f for f in frames if _is_ours(f)), frames[0])
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
