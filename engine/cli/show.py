"""`show ID`: everything there is to know of one run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from engine import client
from engine.cli.output import Exit, byte_count, err, moment, out, print_json, run_object
from engine.cli.summary import print_failure, print_summary
from engine.runs.checkpoint_files import CheckpointInfo
from engine.runs.run_notes import RunNotes
from engine.spec.run_spec import FIELDS

_ALWAYS = ("batch_size", "epochs", "learning_rate", "seed")
"""Options that are shown whatever they are; of the others only those that are not as usual."""


def show(run_id: str, *, json: bool) -> Exit:
    """Print one run: result, settings, checkpoints, failure. Raises NoSuchRun."""
    info = client.get_run(run_id)
    if json:
        print_json(run_object(info))
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
    settings.add_row("started", moment(info.status.started))
    settings.add_row("attempts", str(info.status.attempt))
    console.print()
    console.print(settings)
    saved = client.run_checkpoints(run_id)
    if saved:
        console.print()
        console.print(_checkpoint_table(saved))
    print_failure(err(), info)
    return Exit.DONE


def _print_notes(console: Console, notes: RunNotes) -> None:
    """What a person wrote on the run; the name is in the title."""
    if not (notes.tags or notes.note):
        return
    table = Table.grid(padding=(0, 2))
    if notes.tags:
        table.add_row("tags", ", ".join(notes.tags))
    if notes.note:
        table.add_row("note", notes.note)
    console.print()
    console.print(table)


def _checkpoint_table(saved: list[CheckpointInfo]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("checkpoint", "step", "kinds", "size", "saved"):
        table.add_column(column)
    for info in saved:
        manifest = info.manifest
        table.add_row(
            info.folder.name,
            str(manifest.position.step),
            ", ".join(manifest.kinds) or "–",
            byte_count(manifest.bytes),
            moment(manifest.saved),
        )
    return table
