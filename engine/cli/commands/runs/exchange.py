"""`export RUN...`, `import PATH...` and `open FILE`: runs in the formats of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event

from engine.cases.case_file import SUFFIX
from engine.cli.commands.listings import name_left_out
from engine.cli.output import Exit, err, out, print_json
from engine.cli.progress import progress_bar
from engine.cli.transfers import check_target, downloading
from engine.exports.export_runs import Format, proposed_name
from engine.imports.csv_tables import ColumnNames
from engine.imports.import_runs import is_case
from engine.interface.engine import Engine
from engine.interface.exchange import CannotImport, chosen_runs, export_to, import_from
from engine.runs.run_info import RunInfo


def export_runs(
    engine: Engine, run_ids: Sequence[str], format: str, output: Path | None, *, json: bool
) -> Exit:
    """Write runs as `format` to `output`. Raises NoSuchRun, Refused, CannotExport."""
    if output is not None:
        check_target(output)
    (infos, unreadable), chosen = chosen_runs(engine, run_ids), Format(format)
    target = (output or Path(_name(engine, infos, chosen))).expanduser().absolute()
    with downloading("exporting") as progress:
        done = export_to(engine, infos, chosen, target, progress, Event())
    name_left_out(engine, unreadable)
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
    return Exit.DONE


def _name(engine: Engine, infos: Sequence[RunInfo], format: Format) -> str:
    """Return a name for an export; what another machine calls a run is no part of it."""
    if not engine.machine:
        return proposed_name(infos, format)
    stem = infos[0].id if len(infos) == 1 else f"{len(infos)}-runs"
    return f"traindeck-{engine.machine}-{stem}{'.html' if format.is_file else f'-{format}'}"


def import_files(
    engine: Engine, files: Sequence[Path], columns: ColumnNames, *, json: bool
) -> Exit:
    """Make runs of logs and CSV files of this machine. Raises CannotImport, UploadFailed."""
    with progress_bar("importing") as show:
        done = import_from(engine, [file.expanduser() for file in files], columns, show)
    for text in done.remarks:
        err().print(text, soft_wrap=True)
    if json:
        print_json({"runs": done.run_ids, "points": done.points, "remarks": done.remarks})
    else:
        for title in done.titles:
            out().print(title, soft_wrap=True)
    return Exit.DONE


def open_case(engine: Engine, file: Path, opened: list[str] | None = None, *, json: bool) -> Exit:
    """Make a run of a failure file, and add its number to `opened`. Raises CannotImport."""
    if not is_case(file):
        raise CannotImport(f"{file.name} is no failure file: its name would end in {SUFFIX}.")
    done = import_from(engine, [file.expanduser()], ColumnNames(), lambda what, at, total: None)
    if opened is not None:
        opened += done.run_ids
    if json:
        print_json({"run": done.run_ids[0], "remarks": done.remarks})
    else:
        out().print(done.titles[0], soft_wrap=True)
    return Exit.DONE
