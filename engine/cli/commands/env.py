"""`env`: adds, makes, lists, checks and removes the environments that runs can use."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from engine import client
from engine.cli.output import (
    Exit,
    Interrupted,
    Refused,
    err,
    format_bytes,
    out,
    print_json,
)
from engine.cli.progress import ended_by_signals
from engine.environments import checks, creation, registry
from engine.environments.creation import CreationFailed, Stage
from engine.environments.needs import TITLES, interpreter_problem
from engine.environments.registry import OWN, CannotChange, Environment, Facts
from engine.scripts.interpreters import NoInterpreter, find_interpreter
from engine.system.cancelled import Cancelled
from engine.system.program import call


def add(name: str, python: str | None, requirements: Sequence[str], *, json: bool) -> Exit:
    """Add the environment of `python`, or make one with `requirements`; check it, and print it.

    Raises Refused, Interrupted.
    """
    if not python and not requirements:
        raise Refused(
            "Say which environment: `--python PATH` for one that there is, or `--create "
            "REQUIREMENT` to make one."
        )
    try:
        if problem := registry.name_problem(name):
            raise Refused(problem)
        interpreter = str(find_interpreter(python, Path.cwd())) if python else ""
        if requirements:
            made = _create(name, requirements, interpreter)
        else:
            with err().status(f"Checking {interpreter} …"):
                facts = checks.check(Path(interpreter))
            if not facts.python:
                raise Refused(" ".join(facts.problems))
            made = Environment(name, interpreter, facts=facts)
            registry.add(made)
    except (NoInterpreter, CannotChange, CreationFailed) as error:
        raise Refused(str(error)) from None
    if json:
        print_json(_as_json(made))
        return Exit.DONE
    out().print(f"The environment {name!r} is there: {made.python}", soft_wrap=True)
    _print_facts(made.facts)
    for framework in () if made.facts.problems else made.facts.versions:
        command = call(f"env use {shlex.quote(name)} --for {framework}")
        text = f"`{command}` lets it train all {TITLES[framework]} recipes"
        err().print(f"{text}; `train --env {shlex.quote(name)}` a single run.", soft_wrap=True)
    return Exit.DONE


def show(*, json: bool) -> Exit:
    """Print all environments, Traindeck's own first."""
    found = [_own(), *registry.environments()]
    if json:
        print_json([_as_json(each) for each in found])
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
            interpreter_problem(each.python) or each.python,
        )
    out().print(table)
    return Exit.DONE


def check(name: str, *, json: bool) -> Exit:
    """Ask an environment what it has; print it, and return FAILED if it has a problem.

    Raises Refused.
    """
    found = Environment(OWN, sys.executable) if name == OWN else _get(name)
    with err().status(f"Checking {found.python} …"):
        facts = checks.check(Path(found.python))
    if name != OWN:
        registry.record(name, facts)
    checked = msgspec.structs.replace(found, facts=facts)
    if json:
        print_json(_as_json(checked))
    else:
        out().print(checked.python, soft_wrap=True)
        _print_facts(facts)
    return Exit.FAILED if facts.problems else Exit.DONE


def remove(name: str, *, json: bool) -> Exit:
    """Remove an environment, and delete it if it was made here. Raises Refused."""
    found = _get(name)
    using = [info for info in client.runs() if info.spec.interpreter == found.python]
    if active := [info.id for info in using if not info.state.is_over]:
        raise Refused(f"Run {', '.join(active)} uses the environment {name!r}: stop it first.")
    try:
        registry.remove(name)
        is_deleted = creation.delete(found)
    except CannotChange as error:
        raise Refused(str(error)) from None
    if json:
        print_json(_as_json(found))
        return Exit.DONE
    text = "was deleted" if is_deleted else "is not known any more; its files were left alone"
    out().print(f"The environment {name!r} {text}.", soft_wrap=True)
    if using and is_deleted:
        ids = ", ".join(info.id for info in using)
        err().print(
            f"Runs have used it ({ids}): to resume one, name another with --env.", soft_wrap=True
        )
    return Exit.DONE


def use(name: str, frameworks: Sequence[str], *, json: bool) -> Exit:
    """Let an environment train the recipes of `frameworks` (empty: of those that it has).

    Raises Refused.
    """
    known = registry.known_frameworks() if name == OWN else tuple(_get(name).facts.versions)
    chosen = tuple(dict.fromkeys(frameworks)) or known
    if not chosen:
        raise Refused(f"The environment {name!r} has no framework: say `--for tensorflow`.")
    if lacking := [each for each in chosen if each not in known]:
        titles = " and ".join(TITLES[each] for each in lacking)
        checked = call(f"env check {shlex.quote(name)}")
        raise Refused(
            f"The environment {name!r} has no {titles}, as far as is known: install it there, "
            f"then `{checked}`."
        )
    try:
        registry.use(name, chosen)
    except CannotChange as error:
        raise Refused(str(error)) from None
    if json:
        print_json([_as_json(each) for each in (_own(), *registry.environments())])
        return Exit.DONE
    titles = " and ".join(TITLES[each] for each in chosen)
    out().print(f"New runs of {titles} recipes use the environment {name!r}.", soft_wrap=True)
    return Exit.DONE


def _get(name: str) -> Environment:
    try:
        return registry.get(name)
    except CannotChange as error:
        raise Refused(str(error)) from None


def _own() -> Environment:
    """Describe the Python of Traindeck itself, without an import of a framework."""
    given = {each for one in registry.environments() for each in one.default_for}
    defaults = tuple(each for each in registry.known_frameworks() if each not in given)
    return Environment(OWN, sys.executable, default_for=defaults, facts=checks.own_facts())


def _create(name: str, requirements: Sequence[str], base: str) -> Environment:
    """Make an environment, and show how far it is. Raises Interrupted besides its errors."""
    with err().status("") as status, ended_by_signals():

        def report(stage: Stage) -> None:
            status.update(f"{stage.doing} … {format_bytes(stage.bytes)}")

        try:
            return creation.create(name, requirements, base=base, report=report)
        except (KeyboardInterrupt, Cancelled):
            creation.log_file(name).unlink(missing_ok=True)
            raise Interrupted(
                f"The environment {name!r} was not made; nothing of it is left."
            ) from None


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


def _as_json(environment: Environment) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(environment)
    return found | {"problem": interpreter_problem(environment.python)}
