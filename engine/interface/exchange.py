"""Exports of an engine's runs to this machine, and imports of files of this machine."""

from __future__ import annotations

import contextlib
import platform
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.client import get_run
from engine.exports.export_runs import CannotExport, Exported, Format, export, file_problem
from engine.imports.csv_tables import ColumnNames
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import files_of, import_runs
from engine.interface.engine import Engine, Progress
from engine.interface.files import uploads
from engine.interface.files.transfers import DownloadFailed, fetch_export
from engine.interface.files.uploads import Outgoing
from engine.interface.values import ImportedRuns, ImportSource, NoAnswer
from engine.runs.run_info import RunInfo, UnreadableRun


def chosen_runs(engine: Engine, runs: Sequence[str]) -> tuple[list[RunInfo], list[UnreadableRun]]:
    """Return these runs, each once; `all`, alone: every run, and apart those whose files are
    damaged. Raises NoSuchRun, CannotExport.
    """
    if list(runs) != ["all"]:
        chosen = [engine.get_run(run) for run in dict.fromkeys(runs)]
        for run, info in zip(dict.fromkeys(runs), chosen, strict=True):
            if info.id.rpartition(":")[2] != run.rpartition(":")[2]:
                raise NoAnswer(f"{engine.machine} was asked for run {run}, and sent {info.id!r}.")
        return chosen, []
    news = engine.list_runs()
    found = [each for each in news.changed if isinstance(each, RunInfo)]
    others = [each for each in news.changed if isinstance(each, UnreadableRun)]
    unreadable = [*others, *news.unreadable]
    if not found:
        raise CannotExport("No run can be read." if unreadable else "There are no runs yet.")
    return found, unreadable


def export_to(
    engine: Engine,
    infos: Sequence[RunInfo],
    format: Format,
    target: Path,
    progress: Progress,
    cancelled: threading.Event,
) -> Exported:
    """Write runs of `engine` to the new file or folder `target` here: all of it, or nothing.

    `progress` gets points, and then the bytes that are here. Runs of another machine are written
    there and fetched. Raises CannotExport, DownloadFailed, NoAnswer.
    """
    if not engine.machine:
        return export(infos, format, target, progress)
    numbers = tuple(info.id.rpartition(":")[2] for info in infos)
    found = engine.export_runs(numbers, str(format), progress, cancelled)
    try:
        for file in found.files:
            if problem := file_problem(file.path, format, numbers):
                raise DownloadFailed(f"{engine.machine} sends what was not asked for: {problem}")
        fetch_export(engine, found, target, progress, is_file=format.is_file)
    finally:
        with contextlib.suppress(NoAnswer):  # it is deleted when the connection ends
            engine.discard_folder(found.number)
    return Exported(target, len(infos), found.points, found.remarks)


def import_from(
    engine: Engine,
    sources: Sequence[Path],
    columns: ColumnNames,
    progress: Callable[[str, int, int], None],
) -> ImportedRuns:
    """Make runs of files of this machine, and say which cannot be read; to another machine they
    are sent.

    `progress` gets a few words, what is done, and the total. Raises CannotImport, UploadFailed,
    NoAnswer: then of none.
    """
    if not engine.machine:
        done = import_runs(sources, columns, progress)
        titles = [get_run(run).title for run in done.run_ids]
        return ImportedRuns(done.run_ids, titles, done.points, done.remarks)
    outgoing: list[Outgoing] = []
    named: list[ImportSource] = []
    for number, source in enumerate(map(Path.absolute, sources)):
        root = source if source.is_dir() else source.parent
        place = f"{number}/{root.name or 'files'}"  # runs are named after folders and files
        outgoing += [
            Outgoing(file, f"{place}/{file.relative_to(root).as_posix()}")
            for file in files_of(source)
        ]
        name = place if source.is_dir() else f"{place}/{source.name}"
        named.append(ImportSource(name, f"{platform.node()}:{source}"))
    folder = uploads.send(engine, outgoing, lambda done, total: progress("sending", done, total))
    return engine.import_runs(
        folder.number, named, columns, lambda done, total: progress("importing", done, total)
    )


__all__ = ["CannotExport", "CannotImport", "chosen_runs", "export_to", "import_from"]
