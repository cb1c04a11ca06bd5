"""Exports runs: checks what is asked for, and writes all of it or nothing."""

from __future__ import annotations

import importlib.util
import re
import secrets
import shutil
import sqlite3
import sys
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from engine.exports import csv_files, parquet_files, run_source
from engine.exports.report import html_report
from engine.exports.run_source import RunSource
from engine.exports.tables import Tick
from engine.files.disk_errors import short_reason
from engine.runs.run_info import RunInfo

Progress = Callable[[int, int], None]
"""Called with the number of points that are done, and of all. It may raise to cancel."""


class Format(StrEnum):
    """What runs can be exported as."""

    CSV = "csv"
    PARQUET = "parquet"
    TENSORBOARD = "tensorboard"
    HTML = "html"

    @property
    def is_file(self) -> bool:
        """Whether it is one file, not a folder."""
        return self is Format.HTML


class CannotExport(Exception):
    """The export was refused or has failed, and left nothing behind; the text is a sentence."""


class Exported(NamedTuple):
    """What was written."""

    path: Path
    runs: int
    points: int
    remarks: tuple[str, ...] = ()
    """What was left out, in sentences."""


def proposed_name(infos: Sequence[RunInfo], format: Format) -> str:
    """Return a name for the file or the folder, safe on every system."""
    stem = run_source.file_stem(infos[0]) if len(infos) == 1 else f"{len(infos)}-runs"
    return f"traindeck-{stem}.html" if format.is_file else f"traindeck-{stem}-{format}"


def file_problem(name: str, format: Format, runs: Collection[str]) -> str:
    """Return why an export of these runs has no file of this name, in a sentence; empty: it may.

    Another machine says which files it has made, and its word is no name here.
    """
    match format:
        case Format.CSV:
            fits = name in (csv_files.POINTS, csv_files.RUNS)
        case Format.PARQUET:
            fits = name in (parquet_files.POINTS, parquet_files.RUNS)
        case Format.TENSORBOARD:
            found = _LIVE_LOG.fullmatch(name)
            fits = found is not None and found["run"] in runs
        case Format.HTML:
            fits = True  # it gets the name that was chosen here
    return "" if fits else f"{name!r} is no file of an export as {format}."


_LIVE_LOG = re.compile(
    r"(?P<run>\d+)(-[\w-]+)?/events\.out\.tfevents\.\d+\.\d+\.traindeck", re.ASCII
)


def refusal(infos: Sequence[RunInfo], format: Format) -> str:
    """Return why these runs cannot be exported so, in a sentence; empty if they can."""
    if not infos:
        return "No run is chosen: choose at least one."
    if format is Format.PARQUET and not importlib.util.find_spec(parquet_files.PACKAGE):
        return (
            f"Parquet files need the package {parquet_files.PACKAGE}, which is not installed: "
            f"`{sys.executable} -m pip install {parquet_files.PACKAGE}` installs it."
        )
    if format is Format.HTML and len(infos) > html_report.MOST_RUNS:
        return (
            f"A report compares at most {html_report.MOST_RUNS} runs, and these are "
            f"{len(infos):,}: choose fewer, or another format."
        )
    return ""


def export(
    infos: Sequence[RunInfo],
    format: Format,
    target: Path,
    progress: Progress = lambda done, total: None,
) -> Exported:
    """Write the runs to the new folder `target`, or to the new file for a page of HTML; of several,
    those that can be read.

    What `progress` raises ends the export, which leaves nothing behind. Raises CannotExport.
    """
    if reason := refusal(infos, format) or _target_problem(target):
        raise CannotExport(reason)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(3)}.tmp")
    try:
        try:
            infos, total, unread = _readable(infos)
            done = 0

            def tick(count: int) -> None:
                nonlocal done
                done += count
                progress(min(done, total), total)

            progress(0, total)
            if not format.is_file:
                temporary.mkdir(mode=0o700)
            remarks = unread + _write(infos, format, temporary, tick)
            temporary.replace(target)
        except BaseException:
            _remove(temporary)
            raise
    except sqlite3.Error as error:
        raise CannotExport(f"A run cannot be read: {error}.") from error
    except OSError as error:
        where = error.filename or target
        raise CannotExport(f"{where} cannot be written: {short_reason(error)}.") from error
    return Exported(target, len(infos), done, tuple(remarks))


def _write(infos: Sequence[RunInfo], format: Format, to: Path, tick: Tick) -> list[str]:
    """Write the runs; return what is left out, in sentences."""
    remarks: list[str] = []
    match format:
        case Format.CSV:
            csv_files.write_csv(to, infos, tick)
        case Format.PARQUET:
            parquet_files.write_parquet(to, infos, tick)
        case Format.HTML:
            html_report.write_report(to, infos, tick)
        case Format.TENSORBOARD:
            for info in infos:
                with RunSource(info) as source:
                    found = _write_tensorboard(to / run_source.file_stem(info), source, tick)
                    remarks += [f"Run {info.id}: {text}" for text in found]
    return remarks


def _write_tensorboard(folder: Path, source: RunSource, tick: Tick) -> list[str]:
    from engine.exports.tensorboard_log import POSITION_FILE, TensorBoardLog  # slow to import

    folder.mkdir()
    if source.reader is None:
        return []
    info = source.info
    with TensorBoardLog(folder, info.folder, run_source.settings_of(info.spec)) as log:
        log.catch_up(source.reader, tick)
    (folder / POSITION_FILE).unlink()
    return log.remarks


def _target_problem(target: Path) -> str:
    if not target.parent.is_dir():
        return f"There is no folder {target.parent}: create it, or choose another one."
    if target.exists() or target.is_symlink():
        return f"{target} exists already: choose another name, or remove it."
    return ""


def _readable(infos: Sequence[RunInfo]) -> tuple[list[RunInfo], int, list[str]]:
    """Return the runs that can be read, the number of their points, and sentences on the others.

    Raises CannotExport if there are only others.
    """
    found: list[RunInfo] = []
    total, others = 0, []
    for info in infos:
        try:
            with RunSource(info) as source:
                total += sum(source.counts().values())
        except sqlite3.Error as error:
            others.append(f"Run {info.id} cannot be read, and is left out: {error}.")
        else:
            found.append(info)
    if not found:
        raise CannotExport(" ".join(others[:5]))
    return found, total, others


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
