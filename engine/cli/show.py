"""`show ID`; the summary and the failure of a run, which other commands print too."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine import client
from engine.cli.output import (
    STATE_STYLES,
    Exit,
    err,
    format_bytes,
    format_duration,
    format_number,
    format_time,
    out,
    print_json,
    run_as_json,
)
from engine.client import RunInfo
from engine.messages.events import Event, Failure, RecipeChosen, RunEnded
from engine.runs import checkpoint_files
from engine.runs.checkpoint_files import CheckpointInfo
from engine.runs.run_notes import RunNotes
from engine.runs.store_reader import RunReader
from engine.spec.run_spec import FIELDS

_ALWAYS = ("batch_size", "epochs", "learning_rate", "seed")
"""Options that are always shown; the others only if they differ from their defaults."""


def show(run_id: str, *, json: bool) -> Exit:
    """Print one run: result, settings, checkpoints, failure. Raises NoSuchRun."""
    info = client.get_run(run_id)
    if json:
        print_json(run_as_json(info))
        return Exit.DONE
    console = out()
    print_summary(console, info)
    _print_notes(console, info.notes)
    settings = Table.grid(padding=(0, 2))
    spec = info.spec
    settings.add_row("recipe", spec.recipe)
    settings.add_row("strategy", spec.strategy)
    settings.add_row("devices", ", ".join(spec.devices))
    settings.add_row("batch size", str(spec.batch_size))
    settings.add_row("learning rate", f"{spec.learning_rate:g}")
    settings.add_row("seed", str(spec.seed))
    for name, field in FIELDS.items():
        if name not in _ALWAYS and getattr(spec, name) != field.default:
            settings.add_row(field.title.lower(), str(getattr(spec, name)))
    for name, value in sorted(spec.settings.items()):
        settings.add_row(name, str(value))
    settings.add_row("started", format_time(info.status.started))
    settings.add_row("attempts", str(info.status.attempt))
    if chosen := _newest_choice(info):
        settings.add_row("resumed", f"recipe {chosen.version}; {chosen.changes}")
    console.print()
    console.print(settings)
    checkpoints = client.run_checkpoints(run_id)
    if checkpoints:
        console.print()
        console.print(_checkpoint_table(checkpoints))
    print_failure(err(), info)
    return Exit.DONE


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


def _checkpoint_table(checkpoints: list[CheckpointInfo]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("checkpoint", "step", "kinds", "size", "saved"):
        table.add_column(column)
    for info in checkpoints:
        manifest = info.manifest
        table.add_row(
            info.folder.name,
            str(manifest.position.step),
            ", ".join(manifest.kinds) or "–",
            format_bytes(manifest.bytes),
            format_time(manifest.saved),
        )
    return table


def print_summary(console: Console, info: RunInfo) -> None:
    """Print the result of a run."""
    status = info.status
    table = Table.grid(padding=(0, 2))
    state = Text(str(info.state), STATE_STYLES.get(info.state, ""))
    table.add_row(info.title, state)
    if info.reason:
        table.add_row("reason", info.reason)
    for trouble in info.status.troubles.values():
        if trouble not in info.reason:
            table.add_row("trouble", trouble)
    table.add_row("epoch", f"{status.epoch} of {info.spec.epochs}")
    table.add_row("step", f"{status.step} of {status.total_steps}")
    end = status.updated if info.state.is_over else time.time()
    table.add_row("time", format_duration(status.seconds(end)))
    if status.samples_per_second > 0:
        table.add_row("throughput", f"{status.samples_per_second:,.0f} samples/s")
    for name, value in sorted(status.metrics.items()):
        table.add_row(name, format_number(value))
    if status.checkpoint:
        table.add_row("checkpoint", _newest_checkpoint(info))
    table.add_row("folder", str(info.folder))
    console.print(table)


def _newest_checkpoint(info: RunInfo) -> str:
    """Return the folder of the newest checkpoint, or which one is lost."""
    # An old store names a whole path, which is wrong once the data folder was moved.
    path = info.folder / checkpoint_files.FOLDER / Path(info.status.checkpoint).name
    if path.exists():
        return str(path)
    newest = max(checkpoint_files.folders(info.folder).values(), default=None)
    return f"{path.name} is not there any more" + (f"; the newest is {newest}" if newest else "")


def print_failure(console: Console, info: RunInfo) -> None:
    """Print the root cause if the run has failed. Raises sqlite3.Error."""
    failure = _read_failure(info)
    if failure is None:
        return
    console.print(failure.message, style="red", soft_wrap=True)
    if failure.rank >= 0:
        end = failure.signal or f"exit code {failure.exit_code}"
        console.print(f"  rank {failure.rank} on {failure.device}: {end}", soft_wrap=True)
    if failure.where:
        console.print(f"  at {failure.where}", soft_wrap=True)
    if failure.log_tail:
        console.print("  last lines of its log:", soft_wrap=True)
        for line in failure.log_tail.rstrip().splitlines():
            console.print(f"    {line}", soft_wrap=True)


def _newest_choice(info: RunInfo) -> RecipeChosen | None:
    """Return with which recipe the run went on when it had changed, the last time."""
    found = _newest_event(info, RecipeChosen)
    return found if isinstance(found, RecipeChosen) else None


def _read_failure(info: RunInfo) -> Failure | None:
    ended = _newest_event(info, RunEnded)
    if not isinstance(ended, RunEnded):
        return None
    return ended.failure if ended.state == info.state else None


def _newest_event(info: RunInfo, kind: type[Event]) -> Event | None:
    if info.status.attempt == 0:
        return None
    with RunReader(info.folder) as reader:
        found = reader.newest_event(lambda event: isinstance(event, kind))
    return found.event if found else None
