"""Checks the store of a run: the database, its tables, counts, blocks and status."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from engine.files.format_version import FormatVersion
from engine.files.sqlite_file import can_read, open_readonly
from engine.messages.events import Event
from engine.repair.report import RunReport
from engine.repair.stored_blocks import blocks_are_right, rebuild_blocks
from engine.runs.run_state import RunState, RunStatus, fold
from engine.runs.store import store_backup
from engine.runs.store.run_store import FILE_NAME, FORMAT, decode_event, encode_status, has_means
from engine.runs.store.store_backup import FILE_NAME as BACKUP

WAL = f"{FILE_NAME}-wal"

_COLUMNS = {
    "event": ("seq", "time", "body"),
    "series": ("id", "name", "count"),
    "point": ("series", "i", "step", "time", "value"),
    "block": ("series", "level", "i", "step", "time", "low", "high"),
    "status": ("one", "generation", "body"),
}
_TYPES = {
    "event": "typeof(time) IN ('real', 'integer') AND typeof(body) = 'blob'",
    "series": "typeof(name) = 'text' AND typeof(count) = 'integer'",
    "point": (
        "typeof(i) = 'integer' AND typeof(step) = 'integer' AND typeof(time) IN ('real', 'integer')"
        " AND typeof(value) IN ('real', 'integer', 'null')"
    ),
}
"""What holds for every row of a table; SQLite itself accepts any value in any column."""

_decode_status = msgspec.msgpack.Decoder(RunStatus).decode


@contextlib.contextmanager
def open_store(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the store in `folder` for reading, also on a disk that is read-only.

    Raises sqlite3.Error, OSError. Ctrl-C also ends a long statement.
    """
    path = folder / FILE_NAME
    with _interruptible(open_readonly(path)) as connection:
        if can_read(connection):
            yield connection
        else:
            with tempfile.TemporaryDirectory(prefix="traindeck-fsck-") as copy:
                shutil.copyfile(path, Path(copy) / FILE_NAME)
                shutil.copyfile(folder / WAL, Path(copy) / WAL)
                with _interruptible(_connect(Path(copy) / FILE_NAME)) as copied:
                    yield copied


@contextlib.contextmanager
def open_backup(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the backup of the store in `folder` for reading.

    Raises sqlite3.Error. Ctrl-C also ends a long statement.
    """
    with _interruptible(store_backup.open_backup(folder)) as connection:
        yield connection


def newer_format(folder: Path) -> str:
    """Return in a sentence that only a newer Traindeck can read the store; empty otherwise."""
    try:
        with open_store(folder) as connection:
            (number,) = connection.execute("PRAGMA user_version").fetchone()
    except (sqlite3.Error, OSError):
        return ""
    reason = FormatVersion.from_number(number).why_unreadable(FILE_NAME, FORMAT)
    return f"{reason[0].upper()}{reason[1:]}." if reason else ""


def damage_of(folder: Path) -> str:
    """Return why the store must be built anew from what can be read of it; empty if it need not.

    The text is a clause. Raises sqlite3.Error, OSError if the disk or another process is the cause.
    """
    try:
        with open_store(folder) as connection:
            return (
                _failed_integrity(connection)
                or _wrong_tables(connection)
                or _wrong_rows(connection)
                or _wrong_events(connection)
                or _wrong_places(connection)
            )
    except (ValueError, TypeError) as error:
        return str(error)
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return str(error)


def check_backup(folder: Path, report: RunReport) -> None:
    """Check the backup of an undamaged store; make it anew if it is damaged.

    Raises sqlite3.Error, OSError if the disk or another process is the cause.
    """
    if not os.path.lexists(folder / BACKUP):
        return
    report.progress("the backup of its store")
    try:
        with open_backup(folder) as connection:
            damage = _failed_integrity(connection) or _wrong_tables(connection)
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        damage = str(error)
    if damage:
        report.mendable(
            BACKUP,
            f"The backup of the store is damaged: {damage}.",
            "it is made anew from the store",
            lambda: store_backup.back_up(folder),
        )


def check_contents(folder: Path, report: RunReport) -> None:
    """Check what follows from the points and events of an undamaged store; mend it in place.

    Raises sqlite3.Error, OSError.
    """
    with open_store(folder) as connection:
        series = connection.execute("SELECT id, name, count FROM series ORDER BY id").fetchall()
        wrong_counts = [
            (id, name)
            for id, name, count in series
            if count != connection.execute(_COUNT, (id,)).fetchone()[0]
        ]
        wrong_blocks = []
        for id, name, _ in series:
            report.progress(f"the blocks of {name}")
            if not blocks_are_right(connection, id):
                wrong_blocks.append((id, name))
        status = stored_status(connection)
        expected = folded(connection, status)
    for id, name in wrong_counts:
        report.mendable(
            FILE_NAME,
            f"The number of points of {name} is wrong.",
            "the points are counted again",
            lambda id=id: _change(  # type: ignore[misc]
                folder, f"UPDATE series SET count = ({_COUNT}) WHERE id = ?", (id, id)
            ),
        )
    for id, name in wrong_blocks:
        report.mendable(
            FILE_NAME,
            f"The blocks of {name} are not those of its points: the curve is drawn wrongly.",
            "the blocks are computed again from the points",
            lambda id=id: _rebuild(folder, id),  # type: ignore[misc]
        )
    if status is None or differs(status, expected):
        found = "cannot be read" if status is None else "is not what its events say"
        report.mendable(
            FILE_NAME,
            f"The status of the run {found}.",
            "it is computed again from the events",
            lambda: _change(folder, _SET_STATUS, (encode_status(expected),)),
        )


def folded(connection: sqlite3.Connection, status: RunStatus | None) -> RunStatus:
    """Return the status that follows from the events, and from the points for what has no event.

    What no event says is taken from `status`, if that is known. Raises sqlite3.Error, ValueError.
    """
    found = RunStatus()
    for event, time in stored_events(connection):
        found = fold(found, event, time)
    if status is not None:
        kept = {name: getattr(status, name) for name in _NOT_IN_EVENTS}
        return msgspec.structs.replace(found, **kept)
    last = connection.execute(
        "SELECT step, value FROM point JOIN series ON series.id = point.series "
        "WHERE series.name = 'train/loss' ORDER BY i DESC LIMIT 1"
    ).fetchone()
    if last is None:
        return found
    loss = float("nan") if last[1] is None else float(last[1])
    step = max(found.step, int(last[0]))
    epoch = max(found.epoch, -(-step // found.steps_per_epoch) if found.steps_per_epoch else 0)
    metrics = found.metrics | {"train/loss": loss}
    return msgspec.structs.replace(found, step=step, epoch=epoch, metrics=metrics)


def stored_events(connection: sqlite3.Connection) -> Iterator[tuple[Event, float]]:
    """Yield every event and its time. Raises sqlite3.Error, msgspec.DecodeError."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    version = FormatVersion.from_number(number)
    for time, body in connection.execute("SELECT time, body FROM event ORDER BY seq"):
        yield decode_event(body, version), float(time)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the content of the file causes the error, and not the disk or another process."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # no code: text in no UTF-8
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def differs(status: RunStatus, expected: RunStatus) -> bool:
    """Whether the status is not the one that the events say."""
    if status.state is RunState.STARTING and not status.started:
        return False  # a copy whose first attempt has not begun, see `engine.runs.run_copy`
    return (status.state, status.attempt) != (expected.state, expected.attempt)


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return _with_signals(sqlite3.connect(uri, uri=True, isolation_level=None))


def _with_signals(connection: sqlite3.Connection) -> sqlite3.Connection:
    # Python handles signals only while it runs: Ctrl-C raises in the handler, which SQLite reports.
    connection.set_progress_handler(lambda: 0, 100_000)
    return connection


@contextlib.contextmanager
def _interruptible(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Close `connection` at the end; a statement that Ctrl-C has ended raises KeyboardInterrupt."""
    try:
        yield _with_signals(connection)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from error
        raise
    finally:
        connection.close()


def _failed_integrity(connection: sqlite3.Connection) -> str:
    found = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(3)")]
    return "" if found == ["ok"] else f"the database is damaged: {'; '.join(found)}"


def _wrong_tables(connection: sqlite3.Connection) -> str:
    for table, columns in _COLUMNS.items():
        kind = connection.execute(
            "SELECT type FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
        if kind != ("table",):
            return f"it has no table {table!r}"
        there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if missing := set(columns) - there:
            return f"the table {table!r} has no column {min(missing)!r}"
    return ""


def _wrong_rows(connection: sqlite3.Connection) -> str:
    for table, condition in _TYPES.items():
        if connection.execute(f"SELECT 1 FROM {table} WHERE NOT ({condition}) LIMIT 1").fetchone():
            return f"a row of the table {table!r} holds values of another kind"
    return ""


def _wrong_events(connection: sqlite3.Connection) -> str:
    try:
        for _ in stored_events(connection):
            pass
    except ValueError as error:  # also msgspec's
        return f"an event cannot be read ({error})"
    return ""


def _wrong_places(connection: sqlite3.Connection) -> str:
    if connection.execute(
        "SELECT 1 FROM point WHERE series NOT IN (SELECT id FROM series) LIMIT 1"
    ).fetchone():
        return "there are points of a series without a name"
    for id, name in connection.execute("SELECT id, name FROM series").fetchall():
        count, first, last = connection.execute(
            "SELECT count(*), min(i), max(i) FROM point WHERE series = ?", (id,)
        ).fetchone()
        if count and (first, last) != (0, count - 1):
            return f"points of the series {name!r} are missing"
    return ""


def stored_status(connection: sqlite3.Connection) -> RunStatus | None:
    """Return the status of the run; None if there is none that can be read."""
    try:
        row = connection.execute("SELECT body FROM status").fetchone()
        return _decode_status(row[0]) if row else None
    except (TypeError, ValueError):
        return None


def _change(folder: Path, statement: str, parameters: tuple[object, ...]) -> None:
    with closing(_connect(folder / FILE_NAME)) as connection:
        connection.execute(statement, parameters)


def _rebuild(folder: Path, series: int) -> None:
    with closing(_connect(folder / FILE_NAME)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if not has_means(connection):
            connection.execute("ALTER TABLE block ADD COLUMN mean REAL")
        rebuild_blocks(connection, series)
        connection.execute("COMMIT")


_COUNT = "SELECT coalesce(max(i), -1) + 1 FROM point WHERE series = ?"
_SET_STATUS = (
    "INSERT INTO status (one, generation, body) VALUES (1, 1, ?) ON CONFLICT (one) "
    "DO UPDATE SET generation = generation + 1, body = excluded.body"
)
_NOT_IN_EVENTS = (
    "recorded",
    "updated",
    "epoch",
    "step",
    "samples_per_second",
    "step_seconds",
    "seconds_left",
    "metrics",
)
"""Fields of the status to which events that are not stored contribute."""
