"""Finds the line that a worker executes, in the stacks that it writes on request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.processes.process import PROJECT
from engine.spec.recipe_file import RecipeInfo
from engine.spec.strategy import WorkerPlan

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x", re.MULTILINE)
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')


class Frame(NamedTuple):
    """A line that is being executed."""

    file: str
    line: int
    function: str


class WorkerLocation(NamedTuple):
    """The place in the code that one worker executes."""

    plan: WorkerPlan
    text: str
    """A sentence."""

    where: str
    """File and line in the recipe; empty if the worker is elsewhere."""


def working_threads(stacks: str) -> list[list[Frame]]:
    """Return the frames of the main thread, then of the threads that work for it, innermost first.

    Empty if no stack was written. `stacks` is the output of `faulthandler`: newest thread first, so
    the main thread is the last. It may wait for a thread of the framework (TensorFlow calls a
    `py_function` of the recipe in one) or for one of ours. Other Python threads do not count.
    """
    *others, main = [
        [Frame(file, int(line), function) for file, line, function in _FRAME.findall(thread)]
        for thread in _THREAD.split(stacks)
    ]
    if not main:
        return []
    return [main, *(frames for frames in others if frames and _works_for_main(frames))]


def _works_for_main(frames: Sequence[Frame]) -> bool:
    was_started_by_python = Path(frames[-1].file).name == "threading.py"
    return not was_started_by_python or any(_is_ours(frame) for frame in frames)


def _is_ours(frame: Frame) -> bool:
    return Path(frame.file).is_relative_to(PROJECT / "engine")


def locate_worker(
    plan: WorkerPlan, threads: Sequence[Sequence[Frame]], recipe: RecipeInfo
) -> WorkerLocation:
    """Return the place of the worker of `plan`: in the recipe, if one of `threads` is there.

    `threads` are the results of `working_threads`.
    """
    if not threads:
        text = f"{plan.label} does not answer: it is halted, or waits for a device."
        return WorkerLocation(plan, text, "")
    frames, in_recipe = threads[0], None
    for thread in threads:
        found = [frame for frame in thread if recipe.owns(Path(frame.file))]
        if found:
            frames, in_recipe = thread, found[0]
            break
    shown = in_recipe or next((f for f in frames if _is_ours(f)), frames[0])
    text = f"{plan.label} is in {_in_words(shown)}"
    if shown != frames[0]:
        text += f", there in {_in_words(frames[0])}"
    where = f"{in_recipe.file}:{in_recipe.line}" if in_recipe else ""
    return WorkerLocation(plan, f"{text}.", where)


def _in_words(frame: Frame) -> str:
    return f"{frame.function} ({Path(frame.file).name}:{frame.line})"
