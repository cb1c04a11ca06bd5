"""`env`: adds, makes, lists, checks and removes the environments that runs can use."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Interrupted, Refused, err, format_bytes, out, print_json
from engine.environments import registry
from engine.environments.needs import TITLES, interpreter_problem
from engine.environments.registry import Environment, Facts
from engine.interface.engine import Engine
from engine.interface.values import CreationPart
from engine.system.cancelled import Cancelled
from engine.system.program import call


def add(
    engine: Engine, name: str, python: str | None, requirements: Sequence[str], *, json: bool
) -> Exit:
    """Add the environment of `python`, or make one with `requirements`; check it, and print it.

    Raises Refused, Interrupted, NoInterpreter, CannotChange, CreationFailed.
    """
    if not python and not requirements:
        raise Refused(
            "Say which environment: `--python PATH` for one that there is, or `--create "
            "REQUIREMENT` to make one."
        )
    if requirements:
        made = _create(engine, name, requirements, python or "")
    else:
        with err().status(f"Checking {python} …"):
            folder = "" if engine.machine else str(Path.cwd())
            made = engine.add_environment(name, python or "", folder)
    if json:
        print_json(_as_json(engine, made))
        return Exit.DONE
    out().print(f"The environment {name!r} is there: {made.python}", soft_wrap=True)
    _print_facts(made.facts)
    for framework in () if made.facts.problems else made.facts.versions:
        command = call(f"env use {shlex.quote(name)} --for {framework}", engine.machine)
        text = f"`{command}` lets it train all {TITLES[framework]} recipes"
        err().print(f"{text}; `train --env {shlex.quote(name)}` a single run.", soft_wrap=True)
    return Exit.DONE


def show(engine: Engine, *, json: bool) -> Exit:
    """Print all environments, Traindeck's own first."""
    found = [engine.own_environment(), *engine.list_environments()]
    if json:
        print_json([_as_json(engine, each) for each in found])
        return Exit.DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "python", "frameworks", "default for", "where"):
        table.add_column(column, overflow="fold")
    for each in found:
        table.add_row(
            each.name,
            each.facts.python or "–",
            ", ".join(_framework_texts(each.facts)) or "–",
            ", ".join(map(registry.framework_title, each.default_for)) or "–",
            _problem(engine, each) or each.python,
        )
    out().print(table)
    return Exit.DONE


def check(engine: Engine, name: str, *, json: bool) -> Exit:
    """Ask an environment what it has; print it, and return FAILED if it has a problem.

    Raises CannotChange.
    """
    with err().status(f"Checking {name} …"):
        checked = engine.check_environment(name)
    if json:
        print_json(_as_json(engine, checked))
    else:
        out().print(checked.python, soft_wrap=True)
        _print_facts(checked.facts)
    return Exit.FAILED if checked.facts.problems else Exit.DONE


def remove(engine: Engine, name: str, *, json: bool) -> Exit:
    """Remove an environment, and delete it if it was made here. Raises CannotChange."""
    removed = engine.remove_environment(name)
    if json:
        print_json(_as_json(engine, removed.environment))
        return Exit.DONE
    deleted = "was deleted" if removed.is_deleted else ""
    text = deleted or "is not known any more; its files were left alone"
    out().print(f"The environment {name!r} {text}.", soft_wrap=True)
    if removed.runs and removed.is_deleted:
        ids = ", ".join(removed.runs)
        err().print(
            f"Runs have used it ({ids}): to resume one, name another with --env.", soft_wrap=True
        )
    return Exit.DONE


def use(engine: Engine, name: str, frameworks: Sequence[str], *, json: bool) -> Exit:
    """Let an environment train the recipes of `frameworks` (empty: of those that it has).

    Raises CannotChange.
    """
    chosen = engine.use_environment(name, frameworks)
    if json:
        found = (engine.own_environment(), *engine.list_environments())
        print_json([_as_json(engine, each) for each in found])
        return Exit.DONE
    titles = " and ".join(TITLES[each] for each in chosen)
    out().print(f"New runs of {titles} recipes use the environment {name!r}.", soft_wrap=True)
    return Exit.DONE


def _create(engine: Engine, name: str, requirements: Sequence[str], base: str) -> Environment:
    """Make an environment, and show how far it is. Raises Interrupted besides its errors."""
    with err().status("") as status, CtrlC() as ctrl_c:

        def report(part: CreationPart) -> None:
            status.update(f"{part.doing} … {format_bytes(part.bytes)}")

        try:
            return engine.make_environment(name, requirements, "", report, ctrl_c.event, base)
        except Cancelled:
            raise Interrupted(
                f"The environment {name!r} was not made; nothing of it is left."
            ) from None


def _problem(engine: Engine, environment: Environment) -> str:
    """Return why its Python is not there; what is not of this machine, `check` tells."""
    return "" if engine.machine else interpreter_problem(environment.python)


def _print_facts(facts: Facts) -> None:
    texts = [f"Python {facts.python}"] if facts.python else []
    texts += _framework_texts(facts)
    if texts:
        out().print(f"It has {', '.join(texts)}.", soft_wrap=True)
    for notice in facts.notices:
        out().print(notice, style="yellow", soft_wrap=True)
    for problem in facts.problems:
        err().print(problem, style="red", soft_wrap=True)


def _framework_texts(facts: Facts) -> list[str]:
    texts = []
    for framework, version in facts.versions.items():
        text = f"{registry.framework_title(framework)} {version}"
        if cuda := facts.cuda.get(framework, ""):
            text += f" for CUDA {cuda}"
        gpus = facts.gpus.get(framework)
        if gpus is not None:
            text += f" ({gpus or 'no'} GPU{'' if gpus == 1 else 's'})"
        texts.append(text)
    return texts


def _as_json(engine: Engine, environment: Environment) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(environment)
    return found | {"problem": _problem(engine, environment)}
