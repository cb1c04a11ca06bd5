"""`warm`: loads frameworks before a run needs them, and switches that off and on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec
from rich.table import Table

from engine.cli.output import (
    Exit,
    NoAnswer,
    Refused,
    err,
    format_bytes,
    format_duration,
    out,
    print_json,
)
from engine.files.disk_errors import short_reason
from engine.system.program import call
from engine.templates import client
from engine.templates.client import IMPORT_SECONDS, NoTemplate
from engine.templates.kinds import KINDS, TemplateKind
from engine.templates.protocol import Files, TemplateState, pid_of

SILENT_SECONDS = 10.0
"""A template that does not answer for this time has ended, or could not be started."""

_CHECK_SECONDS = 0.1


def load(names: Sequence[str], *, json: bool) -> Exit:
    """Start the templates of the kinds `names` (empty: all), wait until they are ready, and print
    the states of all templates. Raises Refused, and NoAnswer if one is not ready."""
    if not client.is_switched_on():
        raise Refused(_is_off())
    started: list[TemplateKind] = []
    problems: list[str] = []
    for name in dict.fromkeys(names or KINDS):
        try:
            client.start(KINDS[name])
            started.append(KINDS[name])
        except NoTemplate as error:
            problems.append(f"{KINDS[name].title} cannot be loaded in advance: {error}.")
    try:
        problems += _wait(started)
    except KeyboardInterrupt:
        err().print(f"Loading goes on; `{call('warm --off')}` ends it.", soft_wrap=True)
        raise
    show(json=json)
    if problems:
        raise NoAnswer("\n".join(problems), is_printed=True)
    return Exit.DONE


def switch_off(*, json: bool) -> Exit:
    """End the templates, and start no more for this user; print the states of those that end.

    Raises NoAnswer, also after that, if the switch cannot be stored.
    """
    states = client.states()
    problem = ""
    try:
        client.switch(on=False)
    except OSError as error:
        problem = (
            f"That loading in advance is off could not be stored ({short_reason(error)}): the next "
            f"window or run may load the frameworks again. `{call('warm --off')}` tries it again."
        )
    if json:
        _print_json(states)
    else:
        _print_ends(states, is_off=not problem)
    if problem:
        raise NoAnswer(problem, is_printed=True)
    return Exit.DONE


def _print_ends(states: Iterable[TemplateState], *, is_off: bool) -> None:
    if is_off:
        out().print("Loading in advance is switched off: each worker loads its framework itself.")
    for state in states:
        if not state.answers:
            out().print(f"{KINDS[state.kind].title}: {state.problem}.", soft_wrap=True)
            continue
        after = f" after its {_count(state.workers, 'worker')}" if state.workers else ""
        out().print(f"{KINDS[state.kind].title} (pid {state.pid}) ends{after}.", soft_wrap=True)


def switch_on(*, json: bool) -> Exit:
    """Let the window and the next run start templates again."""
    client.switch(on=True)
    if json:
        _print_json(client.states())
        return Exit.DONE
    text = (
        "Loading in advance is switched on: the window and the first run load the framework that "
        f"they need, and `{call('warm')}` loads it now."
    )
    out().print(text, soft_wrap=True)
    return Exit.DONE


def show(*, json: bool) -> Exit:
    """Print the state of each template."""
    states = client.states()
    if json:
        _print_json(states)
        return Exit.DONE
    if not states:
        out().print(summary(), soft_wrap=True)
        return Exit.DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("framework", "kind", "state", "pid", "memory", "workers", "idle"):
        table.add_column(column, overflow="fold")
    for state in states:
        table.add_row(
            KINDS[state.kind].title,
            state.kind,
            _condition(state),
            str(state.pid),
            format_bytes(state.memory),
            str(state.workers),
            "–" if state.workers or not state.is_ready else format_duration(state.idle_seconds),
        )
    out().print(table)
    return Exit.DONE


def summary() -> str:
    """Return one line for `devices`: which frameworks are loaded in advance."""
    states = client.states()
    if not states:
        if client.is_switched_on():
            return f"No framework is loaded in advance: `{call('warm')}` loads them."
        return _is_off()
    texts = [
        f"{KINDS[state.kind].title} ({_condition(state)}, {format_bytes(state.memory)})"
        for state in states
    ]
    return f"Loaded in advance: {', '.join(texts)}."


def _is_off() -> str:
    return f"Loading in advance is switched off: `{call('warm --allow')}` switches it on."


def _wait(kinds: Sequence[TemplateKind]) -> list[str]:
    """Wait until the templates `kinds` are ready; return a sentence for each that is not."""
    begun = time.monotonic()
    waiting = list(kinds)
    heard = {kind.name: begun for kind in kinds}
    problems: list[str] = []
    titles = ", ".join(kind.title for kind in kinds)
    with err().status(f"Loading {titles} …"):
        while waiting:
            states = {state.kind: state for state in client.states() if state.answers}
            now = time.monotonic()
            heard |= dict.fromkeys(states, now)
            for kind in list(waiting):
                state = states.get(kind.name)
                silent, waited = now - heard[kind.name], now - begun
                if problem := _problem(kind, state, silent=silent, waited=waited):
                    problems.append(problem)
                elif state and state.is_ready:
                    err().print(f"{kind.title} is ready after {waited:.1f} s.", soft_wrap=True)
                else:
                    continue
                waiting.remove(kind)
            if waiting:
                time.sleep(_CHECK_SECONDS)
    return problems


def _problem(
    kind: TemplateKind, state: TemplateState | None, *, silent: float, waited: float
) -> str:
    """Return why the template is not ready and will not be; empty if it may be."""
    if state and state.problem:
        return f"{kind.title} cannot be loaded in advance: {state.problem}."
    log = Files(kind.name).log
    if state is None and silent > SILENT_SECONDS:
        pid = pid_of(Files(kind.name))
        process = f"its process {pid} does not answer" if pid else "its process has ended"
        return f"{kind.title} is not loaded: {process}; see {log}."
    if waited > IMPORT_SECONDS:
        return f"{kind.title} is not loaded after {waited:.0f} s; see {log}."
    return ""


def _print_json(states: Iterable[TemplateState]) -> None:
    print_json([msgspec.structs.asdict(state) for state in states])


def _condition(state: TemplateState) -> str:
    if not state.answers:
        return "does not answer"
    if state.problem:
        return "failed"
    return "ready" if state.is_ready else "loading"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
