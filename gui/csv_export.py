"""Every stored point of some series as CSV, read from a run's store in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.store_reader import RunReader

HEADER = "series,step,unix_time,value\n"


def count(folder: Path, series: Sequence[str]) -> int:
    """How many points there are. Raises sqlite3.Error."""
    with RunReader(folder) as reader:
        counts = reader.counts()
    return sum(counts.get(name, 0) for name in series)


def text(folder: Path, series: Sequence[str]) -> str:
    """The whole document. Raises sqlite3.Error."""
    return "".join(_pieces(folder, series))


def write(folder: Path, series: Sequence[str], file: Path) -> int:
    """Write `file` at once or not at all; returns the number of points. Raises OSError and
    sqlite3.Error."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    lines = 0
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as out:
            for piece in _pieces(folder, series):
                out.write(piece)
                lines += piece.count("\n")
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return lines - 1


def _pieces(folder: Path, series: Sequence[str]) -> Iterator[str]:
    yield HEADER
    with RunReader(folder) as reader:
        for name in series:
            quoted = '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n') else name
            for batch in reader.batches(name):
                rows = zip(
                    batch.step.astype(int).tolist(),
                    batch.time.tolist(),
                    batch.value.tolist(),
                    strict=True,
                )
                yield "".join(
                    f"{quoted},{step},{time:.3f},{value!r}\n" for step, time, value in rows
                )
