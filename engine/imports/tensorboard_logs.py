"""Finds TensorBoard logs in a folder, and reads each as a run."""

from __future__ import annotations

import os
from pathlib import Path

from engine.files.regular_file import open_regular
from engine.imports.found_run import MOST_POINTS, MOST_RUNS, CannotImport, FoundRun, Progress

KIND = "tensorboard"
MOST_FILES = 20_000

_DEEPEST = 20
_MARK = "tfevents"
_OUR_SUFFIX = ".traindeck"
_RECORDS_PER_TICK = 2000


def find_logs(folder: Path) -> dict[Path, list[Path]]:
    """Return the event files in `folder` and below, by the folder that they lie in.

    Links are not followed. Raises CannotImport and OSError.
    """
    found: dict[Path, list[Path]] = {}
    count = 0
    for here, folders, files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        if depth >= _DEEPEST:
            folders.clear()
        folders.sort()
        events = sorted(name for name in files if _MARK in name)
        if events:
            found[Path(here)] = [Path(here) / name for name in events]
        count += len(events)
        if count > MOST_FILES or len(found) > MOST_RUNS:
            raise CannotImport(
                f"{folder} holds more than {MOST_RUNS:,} logs or {MOST_FILES:,} event files: "
                "import parts of it."
            )
    return found


def is_event_file(path: Path) -> bool:
    """Whether the name is that of an event file."""
    return _MARK in path.name


def read_log(name: str, files: list[Path], source: Path, progress: Progress) -> FoundRun:
    """Return the run in the event `files` of one folder. Raises CannotImport, OSError."""
    from engine.imports.event_records import CutRecord, DamagedRecord, records  # slow to import
    from engine.imports.log_reader import LogReader

    run = FoundRun(name, KIND, str(source))
    reader = LogReader(run)
    total = sum(file.stat().st_size for file in files)
    before = 0
    for path in files:
        with open_regular(path, follow_links=True) as file:
            written = os.fstat(file.fileno()).st_mtime
            reader.begin_file(written, is_ours=path.suffix == _OUR_SUFFIX)
            try:
                for number, event in enumerate(records(file)):
                    reader.read(event)
                    if not number % _RECORDS_PER_TICK:
                        progress(before + file.tell(), total)
                        if reader.points > MOST_POINTS:
                            raise CannotImport(f"{source} has more than {MOST_POINTS:,} points.")
            except CutRecord:
                run.remark(
                    f"{path.name} ends within a record: its program writes it, or was killed."
                )
            except DamagedRecord as error:
                run.remark(f"{path.name} is damaged: {error}. What follows there is left out.")
        before += path.stat().st_size
        progress(min(before, total), total)
    reader.finish()
    return run
