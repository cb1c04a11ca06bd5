"""Imports runs from files and folders: finds out what these hold, and makes all of it runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.cases.case_file import SUFFIX, UnfitCase
from engine.exports.csv_files import POINTS
from engine.files.disk_errors import short_reason
from engine.imports import csv_tables, new_runs, tensorboard_logs
from engine.imports.csv_tables import ColumnNames
from engine.imports.found_run import MOST_RUNS, CannotImport, FoundRun
from engine.imports.new_runs import LEFTOVER_SECONDS
from engine.system import paths

_MOST_PROBLEMS = 10
"""Files of a folder whose faults are told."""

Progress = Callable[[str, int, int], None]
"""Called with what is read or stored, how much of it is done, and of how much. It may raise to
cancel: then nothing is imported."""


class Imported(NamedTuple):
    """What has become runs."""

    run_ids: list[str]
    points: int
    remarks: list[str]
    """What was left out, in sentences."""


def import_runs(
    sources: Sequence[Path],
    columns: ColumnNames | None = None,
    progress: Progress = lambda what, done, total: None,
    origin: Callable[[str], str] = lambda path: path,
) -> Imported:
    """Make runs of event files, of folders with logs, of CSV files, and of failure files.

    `columns` says what the columns of a CSV file mean, `origin` what the runs say of the path from
    which they came. A log or table that cannot be read is named among the remarks, and the others
    are imported. Raises CannotImport: then nothing was imported, and so it is if `progress` raises.
    """
    paths.remove_staged(LEFTOVER_SECONDS)
    staged: list[Path] = []
    try:
        problems: list[str] = []
        cases = [source.absolute() for source in sources if is_case(source)]
        found = _merged(
            run
            for source in sources
            if not is_case(source)
            for run in _read(source, columns, progress, problems)
        )
        points = 0
        for case in cases:
            points += _open(case, origin, staged)
        if not (found or cases):
            raise CannotImport(_first(problems))
        if len(found) > MOST_RUNS:
            raise CannotImport(
                f"These are {len(found):,} runs: import at most {MOST_RUNS:,} at once."
            )
        points += sum(run.points for run in found)
        done = 0

        def tick(count: int) -> None:
            nonlocal done
            done += count
            progress("", done, points)

        for run in found:
            run.source = origin(run.source)
            staged.append(new_runs.stage(run, tick))
        refused = [_first(problems)] if problems else []
        return Imported(_adopt(staged), points, [*refused, *_remarks(found)])
    except OSError as error:
        raise CannotImport(_why(error)) from error
    except sqlite3.Error as error:
        raise CannotImport(f"The runs cannot be stored: {error}.") from error
    finally:
        for folder in staged:
            new_runs.discard(folder)  # those that have become runs are not there any more


def is_case(source: Path) -> bool:
    """Whether the name is that of a failure file."""
    return source.suffix == SUFFIX


def _open(case: Path, origin: Callable[[str], str], staged: list[Path]) -> int:
    """Stage the run of a failure file; return its points. Raises CannotImport, OSError."""
    from engine.cases import opening  # slow, and seldom needed

    if not case.is_file():
        raise CannotImport(f"There is no file {case}.")
    try:
        folder, points = opening.stage(case, origin(str(case)))
    except UnfitCase as error:
        raise CannotImport(str(error)) from error
    staged.append(folder)
    return points


def _adopt(staged: Sequence[Path]) -> list[str]:
    """Make all staged folders runs, or none."""
    runs: list[Path] = []
    try:
        for folder in staged:
            runs.append(paths.adopt_run_folder(folder))
    except OSError:
        for folder in runs:
            new_runs.discard(folder)
        raise
    return [folder.name for folder in runs]


def _read(
    source: Path, columns: ColumnNames | None, progress: Progress, problems: list[str]
) -> Iterable[FoundRun]:
    """Yield the runs of a source; add a sentence to `problems` for each part that has none."""
    source = source.absolute()
    if not source.exists():
        raise CannotImport(f"There is no file or folder {source}.")
    names = columns or ColumnNames()

    def tell(path: Path) -> Callable[[int, int], None]:
        return lambda done, total: progress(path.name, done, total)

    logs: dict[Path, list[Path]] = {}
    if source.is_dir():
        logs, tables = _content(source)
    elif tensorboard_logs.is_event_file(source):
        logs, tables = {source: [source]}, []
    else:
        _check_table(source)
        tables = [source]
    for place, files in logs.items():
        relative = place.relative_to(source).as_posix()
        name = relative if relative != "." else (source if source.is_dir() else source.parent).name
        try:
            yield _with_points(tensorboard_logs.read_log(name, files, place, tell(place)))
        except (CannotImport, OSError) as error:  # all that are at fault are named at once
            problems.append(_why(error))
    for table in tables:
        try:
            yield from csv_tables.read_csv(table, names, tell(table))
        except (CannotImport, OSError) as error:
            problems.append(_why(error))


def files_of(source: Path) -> list[Path]:
    """Return the files that an import of `source` reads. Raises CannotImport, OSError."""
    if is_case(source):
        return [source]
    if source.is_dir():
        logs, tables = _content(source)
    elif tensorboard_logs.is_event_file(source):
        logs, tables = {source.parent: [source]}, []
    else:
        _check_table(source)
        logs, tables = {}, [source]
    beside = (csv_tables.facts_beside(table) for table in tables)
    files = [*(file for each in logs.values() for file in each), *tables, *filter(None, beside)]
    return list(dict.fromkeys(files))


def _content(folder: Path) -> tuple[dict[Path, list[Path]], list[Path]]:
    """Return the event files of a folder, by the folder that they lie in; else its tables."""
    logs = tensorboard_logs.find_logs(folder)
    tables = [] if logs else _tables(folder)
    if not logs and not tables:
        raise CannotImport(
            f"{folder} holds neither TensorBoard event files (their names hold 'tfevents') nor "
            "CSV files."
        )
    return logs, tables


def _check_table(source: Path) -> None:
    if not source.exists():
        raise CannotImport(f"There is no file or folder {source}.")
    if source.suffix.casefold() not in (".csv", ".tsv", ".txt"):
        raise CannotImport(
            f"{source} is neither a TensorBoard event file (its name holds 'tfevents') nor a CSV "
            "file (its name ends in .csv)."
        )


def _first(problems: Sequence[str]) -> str:
    more = len(problems) - _MOST_PROBLEMS
    further = [f"{more:,} more of these files cannot be read."] if more > 0 else []
    return " ".join([*problems[:_MOST_PROBLEMS], *further])


def _tables(folder: Path) -> list[Path]:
    """Return the CSV files of a folder; of one that we have exported, only that with the points."""
    ours = folder / POINTS
    return [ours] if ours.is_file() else sorted(folder.glob("*.csv"))


def _with_points(run: FoundRun) -> FoundRun:
    if not (run.series or run.images or run.histograms):
        remarks = " ".join(run.remarks)
        raise CannotImport(f"{run.source} holds no points. {remarks}".rstrip())
    return run


def _merged(runs: Iterable[FoundRun]) -> list[FoundRun]:
    """Put together what several CSV files of one folder hold of one run: TensorBoard downloads
    each series as a file of its own."""
    found: list[FoundRun] = []
    by_name: dict[tuple[str, Path], FoundRun] = {}
    for run in runs:
        key = run.name, Path(run.source).parent
        known = by_name.get(key) if run.kind == csv_tables.KIND else None
        if known is not None and not known.series.keys() & run.series.keys():
            known.series |= run.series
            known.source = str(key[1])
            for text in run.remarks:
                known.remark(text)
            continue
        by_name[key] = run
        found.append(run)
    return found


def _remarks(runs: Sequence[FoundRun]) -> list[str]:
    return [f"{run.name}: {text}" for run in runs for text in run.remarks]


def _why(error: CannotImport | OSError) -> str:
    if isinstance(error, CannotImport):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"The import has failed: {where}{short_reason(error)}."
