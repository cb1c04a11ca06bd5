"""`race`: some steps with each strategy, and which was the fastest."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from rich.table import Table

from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.follow import CtrlC
from engine.cli.measuring import measure
from engine.cli.output import Exit, Refused, err, format_bytes, format_number, out, print_json
from engine.facts.equivalent_command import train_arguments
from engine.interface.engine import Engine
from engine.planning import kept
from engine.planning.race import CannotRace, entrants
from engine.planning.requests import AskRace
from engine.planning.results import Doing, Entry, News, Race, Raced
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.strategy import Strategy
from engine.system.program import call

ALL = "all"
_BAR = 24
"""Characters of the longest bar."""

_STEPS = 60
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class RaceOptions(NamedTuple):
    """The flags of a race, as texts with commas; empty: the value of the run."""

    strategies: str
    batch_sizes: str
    precisions: str
    counts: str
    steps: int | None
    side_by_side: bool


def race_strategies(
    engine: Engine, recipe: str, run: RunOptions, options: RaceOptions, *, json: bool
) -> Exit:
    """Race strategies, and print what was measured. Raises Refused, UnknownName, OSError."""
    info = catalog.recipe(recipe)
    strategies = _strategies(options.strategies, info)
    fields = {name: value for name, value in run.fields.items() if name != "steps"}
    run = run._replace(strategy=strategies[0].name, fields=fields)
    spec = make_spec(engine, info, run)
    try:
        entering = entrants(
            spec,
            info,
            strategies,
            _numbers("--batch-sizes", options.batch_sizes),
            _precisions(options.precisions),
            _numbers("--device-counts", options.counts),
            cache(lambda framework: engine.find_interpreter("", framework)),
        )
    except CannotRace as error:
        raise Refused(str(error)) from error
    request = AskRace(
        entrants=entering,
        steps=_STEPS if options.steps is None else options.steps,
        together=options.side_by_side,
        devices=spec.devices,
    )
    with CtrlC() as ctrl_c:
        found, number = measure(engine, request, Race, _tell, ctrl_c)
    return _report(engine, found, len(entering), number, json=json)


def _report(engine: Engine, found: Race, entering: int, number: int, *, json: bool) -> Exit:
    """Print what was measured of so many entrants."""
    ran = sum(bool(each.samples_per_second) for each in found.entries)
    if json:
        print_json([_as_json(engine, each, number) for each in found.entries])
    else:
        _print(engine, found, number)
    if found.is_stopped:
        err().print(f"The race was stopped: {ran} of {entering} were measured.")
        return Exit.STOPPED
    return Exit.DONE if ran else Exit.FAILED


def _strategies(text: str, recipe: RecipeInfo) -> list[Strategy]:
    """Return the strategies that `text` names, each once. Raises Refused, UnknownName."""
    if text == ALL:
        found = list(catalog.strategies_for(recipe))
        if not found:
            raise Refused(recipe.problem or f"No strategy trains {recipe.name}.")
        return found
    return [catalog.strategy(name, recipe) for name in _words("--strategies", text)]


def _words(flag: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise Refused(f"{flag} {text!r} has an empty entry: say, for example, a,b.")
    return list(dict.fromkeys(words))


def _numbers(flag: str, text: str) -> list[int]:
    if not text:
        return []
    words = _words(flag, text)
    if wrong := [word for word in words if not (word.isascii() and word.isdecimal())]:
        raise Refused(f"{flag} takes whole numbers with commas between them, not {wrong[0]!r}.")
    return list(map(int, words))


def _precisions(text: str) -> list[str]:
    if not text:
        return []
    words, field = _words("--precisions", text), FIELDS["precision"]
    for word in words:
        if problem := field.problem(word):
            raise Refused(problem)
    return words


def _tell(news: News) -> None:
    match news:
        case Doing(text):
            err().print(text, soft_wrap=True)
        case Raced(entry) if entry.samples_per_second:
            rate = _rate(entry.samples_per_second)
            err().print(f"  {_name(entry)}: {rate} samples/s", soft_wrap=True)
        case Raced(entry):
            err().print(f"  {_name(entry)}: {entry.problem}", soft_wrap=True)


def _print(engine: Engine, found: Race, number: int) -> None:
    console = out()
    able = [each for each in found.entries if each.samples_per_second]
    if able:
        console.print(_table(able))
    for each in found.entries:
        if not each.samples_per_second:
            console.print(f"{_name(each)}: {each.problem}", style="red", soft_wrap=True)
    for notice in found.notices:
        console.print(notice, style="yellow", soft_wrap=True)
    if not able:
        return
    console.print(kept.summary(found), soft_wrap=True)
    console.print(f"Train with it: {_command(engine, able[0].spec, number)}", soft_wrap=True)


def _table(entries: Sequence[Entry]) -> Table:
    """Return the entries as rows with a bar each. Columns in which nothing varies are left out."""
    fastest = max(each.samples_per_second or 0.0 for each in entries)
    columns: dict[str, list[str]] = {
        "strategy": [each.strategy for each in entries],
        "devices": [str(len(each.devices)) for each in entries],
        "batch": [str(each.batch_size) for each in entries],
        "precision": [each.precision for each in entries],
        "samples/s": [_rate(each.samples_per_second or 0.0) for each in entries],
        "": [_bar((each.samples_per_second or 0.0) / fastest) for each in entries],
        "noise": [f"± {100 * each.noise:.0f} %" for each in entries],
        "efficiency": [_percent(each.efficiency) for each in entries],
        "memory": [_memory(each) for each in entries],
        "first step": [f"{each.first_step_seconds:.2f} s" for each in entries],
        "J/sample": ["–" if e.joules is None else format_number(e.joules) for e in entries],
        "remark": ["a tie" if each.is_tied else "" for each in entries],
    }
    optional = {"batch": None, "precision": None, "J/sample": "–", "remark": ""}
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = []
    for title, cells in columns.items():
        if title in optional and len(set(cells)) == 1 and optional[title] in (None, cells[0]):
            continue
        numeric = title not in ("strategy", "precision", "", "remark")
        table.add_column(title, justify="right" if numeric else "left", no_wrap=True)
        shown.append(cells)
    for row in zip(*shown, strict=True):
        table.add_row(*row)
    return table


def _bar(share: float) -> str:
    eighths = round(8 * _BAR * share)
    if not _can_show(_EIGHTHS):
        return "#" * round(_BAR * share)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _name(entry: Entry) -> str:
    count = len(entry.devices)
    text = f"{entry.strategy} on {count} device{'s' if count > 1 else ''}"
    return f"{text}, batch {entry.batch_size}, {entry.precision}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else format_number(rate)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _memory(entry: Entry) -> str:
    """Return the most that one device needed; all CPU devices have one memory."""
    return format_bytes(int(max(entry.memory.values()))) if entry.memory else "–"


def _command(engine: Engine, spec: RunSpec, number: int) -> str:
    words = [*train_arguments(spec), *(["--planned", str(number)] if number else [])]
    return call(shlex.join(["train", *words]), engine.machine)


def _as_json(engine: Engine, entry: Entry, number: int) -> dict[str, Any]:
    return {
        "strategy": entry.strategy,
        "samples_per_second": entry.samples_per_second,
        "devices": entry.devices,
        "batch_size": entry.batch_size,
        "precision": entry.precision,
        "efficiency": entry.efficiency,
        "noise": entry.noise,
        "is_tied": entry.is_tied,
        "steps": entry.steps,
        "memory": entry.memory,
        "first_step_seconds": entry.first_step_seconds,
        "joules_per_sample": entry.joules,
        "shares": entry.shares,
        "problem": entry.problem,
        "command": "" if entry.problem else _command(engine, entry.spec, number),
        "planned": number or None,
    }
