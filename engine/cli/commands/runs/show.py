"""`show ID`: one run with its settings, what it was started with, its checkpoints, its failure."""

from __future__ import annotations

import shlex
import sys

from rich.console import Console
from rich.table import Table

from engine.cli.commands.runs.checkpoints import checkpoint_table
from engine.cli.facts_output import facts_as_json, print_facts
from engine.cli.follow import now_of
from engine.cli.output import Exit, Refused, err, format_time, one_run_as_json, out, print_json
from engine.cli.summary import print_failure, print_summary
from engine.interface.engine import Engine
from engine.interface.values import RunDetails
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import RunNotes
from engine.runs.run_overview import RunOverview
from engine.runs.run_state import accumulation_in_force
from engine.scripts.secrets import not_stored, redacted, shown_setting, shown_words
from engine.spec.run_spec import FIELDS

_ALWAYS = ("batch_size", "epochs", "learning_rate", "seed")
"""Options that are always shown; the others only if they differ from their defaults."""


def show(engine: Engine, run_id: str, *, json: bool, diff: bool = False) -> Exit:
    """Print one run: result, settings, what it was started with, checkpoints, failure.

    `diff`: print the changes of its code that were not committed, and nothing else. Raises
    NoSuchRun.
    """
    info = engine.get_run(run_id)
    overview = engine.read_overview(run_id, {})
    if diff:
        return _print_diff(engine, info, overview)
    details = engine.read_details(run_id)
    if json:
        print_json(one_run_as_json(info, details) | facts_as_json(overview))
        return Exit.DONE
    console = out()
    print_summary(console, info, details, now_of(engine, info))
    _print_notes(console, info.notes)
    settings = Table.grid(padding=(0, 2))
    spec = info.spec
    if spec.is_script:
        _add_script_rows(settings, info, details)
    elif spec.is_imported:
        settings.add_row("imported from", spec.imported_from)
    else:
        settings.add_row("recipe", spec.recipe)
        if details.python:
            settings.add_row("python", details.python)
    settings.add_row("strategy", spec.strategy)
    if not spec.is_imported:
        settings.add_row("devices", ", ".join(spec.devices))
    if not (spec.is_script or spec.is_imported):
        settings.add_row("batch size", str(spec.batch_size))
        settings.add_row("learning rate", f"{spec.learning_rate:g}")
        settings.add_row("seed", str(spec.seed))
    for name, field in FIELDS.items():
        if name not in _ALWAYS and getattr(spec, name) != field.default:
            settings.add_row(field.title.lower(), str(getattr(spec, name)))
    for name, value in sorted(spec.settings.items()):
        settings.add_row(name, str(shown_setting(name, value)))
    settings.add_row("started", format_time(info.status.started))
    settings.add_row("attempts", str(info.status.attempt))
    in_force = accumulation_in_force(spec, info.status.replicas, info.status.shrunk)
    if in_force != spec.accumulation:
        text = f"{in_force} accumulation steps, since a device was out of memory"
        settings.add_row("in force", text)
    if chosen := details.chosen:
        settings.add_row("resumed", f"recipe {chosen.version}; {chosen.changes}")
    console.print()
    console.print(settings)
    print_facts(console, overview)
    if checkpoints := engine.list_checkpoints(run_id):
        console.print()
        console.print(checkpoint_table(checkpoints))
    print_failure(err(), details.failure)
    return Exit.DONE


def _print_diff(engine: Engine, info: RunInfo, overview: RunOverview) -> Exit:
    facts = overview.facts.attempt
    try:
        text = engine.read_diff(info.id, facts.attempt) if facts is not None else ""
    except OSError as error:
        raise Refused(f"The changes of run {info.id} cannot be read: {error}.") from error
    if not text:
        git = facts.git if facts is not None else None
        if git is not None and git.problem and not git.commit:
            raise Refused(f"The changes of run {info.id} are not known: {git.problem}")
        why = "has none that were recorded" if facts is None or facts.git is None else "has none"
        err().print(f"Run {info.id} {why}: its code was as committed, or in no repository.")
        return Exit.DONE
    sys.stdout.write(text)
    if facts is not None and facts.git is not None and facts.git.diff_is_cut:
        err().print("The rest of the changes was not kept: they are too long.")
    return Exit.DONE


def _add_script_rows(settings: Table, info: RunInfo, details: RunDetails) -> None:
    spec = info.spec
    settings.add_row("command", shlex.join(shown_words(spec.command)))
    settings.add_row("folder", spec.working_folder)
    if details.python:
        settings.add_row("python", details.python)
    for name, value in spec.variables.items():
        settings.add_row("variable", f"{name}={redacted(value)}")
    for name in spec.secret_variables:
        settings.add_row("variable", f"{name} ({not_stored(spec.fingerprints.get(name))})")
    settings.add_row("resuming", details.resuming)


def _print_notes(console: Console, notes: RunNotes) -> None:
    if not (notes.tags or notes.note):
        return
    table = Table.grid(padding=(0, 2))
    if notes.tags:
        table.add_row("tags", ", ".join(notes.tags))
    if notes.note:
        table.add_row("note", notes.note)
    console.print()
    console.print(table)
