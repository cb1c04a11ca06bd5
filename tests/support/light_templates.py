"""Kinds of templates without a framework, which are ready at once; also the program that runs one.

Their workers run `tests.support.light_worker`, with Python code as the argument.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.templates import __main__ as program
from engine.templates.kinds import TemplateKind

_DOCTORED = ("broken", "no_fork", "slow", "talkative", "thread")
MODULES = {
    "light": "json",
    **{name: f"tests.support.imported_by_templates.{name}" for name in _DOCTORED},
}


def set_up(environment: Mapping[str, str]) -> None:
    """Fail if the environment asks for that."""
    if text := environment.get("SET_UP_FAILS"):
        raise ValueError(text)


def without_noise(printed: str, environment: Mapping[str, str]) -> str:
    """Leave out the lines of noise."""
    return "".join(line for line in printed.splitlines(keepends=True) if "noise" not in line)


LIGHT_KINDS = {
    name: TemplateKind(
        name,
        name.title(),
        (module,),
        {},
        f"{__name__}:set_up",
        f"{__name__}:without_noise",
        "tests.support.light_templates",
    )
    for name, module in MODULES.items()
}

if __name__ == "__main__":
    program.run(LIGHT_KINDS)
