"""`export RUN...` and `import PATH...`: runs in the formats of other programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from engine import client
from engine.cli import transfers
from engine.cli.output import Exit, Refused, err, out, print_json
from engine.cli.progress import progress_bar
from engine.exports.export_runs import CannotExport, Exported, Format, export, proposed_name
from engine.imports.csv_tables import ColumnNames
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import import_runs
from engine.remote.machines import RemoteMachine
from engine.runs import run_index
from engine.runs.run_info import RunInfo


def export_runs(run_ids: Sequence[str], format: str, output: Path | None, *, json: bool) -> Exit:
    """Write runs as `format` to `output`. Raises NoSuchRun and Refused."""
    infos = _infos(run_ids)
    chosen = Format(format)
    target = output or Path(proposed_name(infos, chosen))
    with progress_bar("exporting") as show:
        try:
            done = export(
                infos,
                chosen,
                target.expanduser().absolute(),
                lambda done, total: show("", done, total),
            )
        except CannotExport as error:
            raise Refused(str(error)) from error
    return _report(done, format, [info.id for info in infos], json=json)


def export_from(
    machine: RemoteMachine,
    run_ids: Sequence[str],
    format: str,
    output: Path | None,
    *,
    json: bool,
) -> Exit:
    """Write runs of another machine as `format` to `output` here. Raises Refused, NoAnswer."""
    path, exported = transfers.export_from(machine, run_ids, format, output)
    done = Exported(path, len(run_ids), exported.points, exported.remarks)
    return _report(done, format, run_ids, json=json)


def _report(done: Exported, format: str, run_ids: Sequence[str], *, json: bool) -> Exit:
    for text in done.remarks:
        err().print(text, soft_wrap=True)
    if json:
        print_json(
            {
                "file": str(done.path),
                "format": format,
                "runs": run_ids,
                "points": done.points,
                "remarks": done.remarks,
            }
        )
    else:
        out().print(str(done.path), soft_wrap=True)
    return Exit.DONE


def columns_of(options: argparse.Namespace) -> ColumnNames:
    """Return what the options of `import` say of the columns."""
    return ColumnNames(
        step=options.step_column,
        time=options.time_column,
        series=options.series_column,
        value=options.value_column,
        run=options.run_column,
    )


def import_to(
    machine: RemoteMachine, files: Sequence[Path], columns: ColumnNames, *, json: bool
) -> Exit:
    """Make runs on another machine of logs and CSV files of this one. Raises Refused, NoAnswer."""
    done = transfers.import_to(machine, [file.expanduser() for file in files], columns)
    return _report_import(done.run_ids, done.titles, done.points, done.remarks, json=json)


def import_files(files: Sequence[Path], columns: ColumnNames, *, json: bool) -> Exit:
    """Make runs of logs and CSV files. Raises Refused."""
    with progress_bar("importing") as show:
        try:
            done = import_runs([file.expanduser() for file in files], columns, show)
        except CannotImport as error:
            raise Refused(str(error)) from error
    titles = [client.get_run(run_id).title for run_id in done.run_ids]
    return _report_import(done.run_ids, titles, done.points, done.remarks, json=json)


def _report_import(
    run_ids: Sequence[str],
    titles: Sequence[str],
    points: int,
    remarks: Sequence[str],
    *,
    json: bool,
) -> Exit:
    for text in remarks:
        err().print(text, soft_wrap=True)
    if json:
        print_json({"runs": run_ids, "points": points, "remarks": remarks})
    else:
        for title in titles:
            out().print(title, soft_wrap=True)
    return Exit.DONE


def _infos(run_ids: Sequence[str]) -> list[RunInfo]:
    if list(run_ids) == ["all"]:
        found = run_index.RunIndex().runs()
        if not found:
            raise Refused("There are no runs yet.")
        return found
    return [client.get_run(run_id) for run_id in dict.fromkeys(run_ids)]
