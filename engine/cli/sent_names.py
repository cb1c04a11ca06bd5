"""What was sent for a command, by the names of the person who asks from another machine."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.planning.results import with_texts
from engine.system.program import sent_recipe

if TYPE_CHECKING:
    from engine.interface.recipes import SentFiles

A = TypeVar("A")


def as_asked(answer: A) -> A:
    """Return a text, or what was measured, in which the recipe that was sent, and the modules
    beside it, have the names that they have on the machine of the person.

    Raises OSError if the recipe is gone.
    """
    name, path = sent_recipe()
    return with_texts(answer, _sent_files(name, path).told) if path else answer


@cache
def _sent_files(name: str, path: str) -> SentFiles:
    from engine.interface.recipes import SentFiles
    from engine.interface.sent_code import code_in

    return SentFiles(code_in(Path(path)), path, name)
