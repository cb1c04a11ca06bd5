"""`export RUN...` and `import PATH...`: runs in the formats of other programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from engine import client
from engine.cli.output import Exit, Refused, err, out, print_json
from engine.exports.export_runs import CannotExport, Format, export, proposed_name
from engine.imports.csv_tables import ColumnNames
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import import_runs
from engine.runs import run_index
from engine.runs.run_info import RunInfo

Show = Callable[[str, int, int], None]
"""Takes what is done, how much of it, and of how much."""


def export_runs(run_ids: Sequence[str], format: str, output: Path | None, *, json: bool) -> Exit:
    """Write runs as `format` to `output`. Raises NoSuchRun and Refused."""
    infos = _infos(run_ids)
    chosen = Format(format)
    target = output or Path(proposed_name(infos, chosen))
    with _progress("exporting") as show:
        try:
            done = export(
                infos,
                chosen,
                target.expanduser().absolute(),
                lambda done, total: show("", done, total),
            )
        except CannotExport as error:
            raise Refused(str(error)) from error
    for text in done.remarks:
        err().print(text, soft_wrap=True)
    if json:
        print_json(
            {
                "file": str(done.path),
                "format": format,
                "runs": [info.id for info in infos],
                "points": done.points,
                "remarks": done.remarks,
            }
        )
    else:
        out().print(str(done.path), soft_wrap=True)
    if chosen is Format.WANDB:
        err().print("Nothing was sent: `wandb sync` uploads what is in there.", soft_wrap=True)
    return Exit.DONE


def import_files(files: Sequence[Path], columns: ColumnNames, *, json: bool) -> Exit:
    """Make runs of logs and CSV files. Raises Refused."""
    with _progress("importing") as show:
        try:
            done = import_runs([file.expanduser() for file in files], columns, show)
        except CannotImport as error:
            raise Refused(str(error)) from error
    for text in done.remarks:
        err().print(text, soft_wrap=True)
    if json:
        print_json({"runs": done.run_ids, "points": done.points, "remarks": done.remarks})
    else:
        for run_id in done.run_ids:
            out().print(client.get_run(run_id).title, soft_wrap=True)
    return Exit.DONE


def _infos(run_ids: Sequence[str]) -> list[RunInfo]:
    if list(run_ids) == ["all"]:
        found = run_index.RunIndex().runs()
        if not found:
            raise Refused("There are no runs yet.")
        return found
    return [client.get_run(run_id) for run_id in dict.fromkeys(run_ids)]


@contextmanager
def _progress(what: str) -> Iterator[Show]:
    """Show a bar while the body works; without a terminal, nothing."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    is_shown = sys.stderr.isatty()
    with Progress(*columns, console=err(), transient=True, disable=not is_shown) as bar:
        task = bar.add_task(what, total=None)

        def show(detail: str, done: int, total: int) -> None:
            bar.update(task, description=f"{what} {detail}".rstrip(), completed=done, total=total)

        yield show
