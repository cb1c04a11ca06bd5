"""The list of all runs, read again only where something may have changed."""

from __future__ import annotations

from pathlib import Path

from engine import client, paths
from engine.client import RunInfo, UnreadableRun
from engine.store import FILE_NAME

Stamp = tuple[int, ...]


class RunIndex:
    """Remembers the runs that are over, so that a thousand old runs cost a thousand `stat`s."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, RunInfo]] = {}
        self.unreadable: list[UnreadableRun] = []
        """The runs that the last look could not read, newest first."""

    def runs(self) -> list[RunInfo]:
        """Every run that can be read, newest first. May be called on any one thread at a time."""
        found: list[RunInfo] = []
        unreadable = []
        for run_id in paths.run_ids():
            stamp = _stamp(paths.run_folder(run_id))
            known = self._known.get(run_id)
            if known is not None and known[0] == stamp and known[1].state.is_over:
                found.append(known[1])
                continue
            match client.look_anyway(run_id):
                case RunInfo() as info:
                    self._known[run_id] = (stamp, info)
                    found.append(info)
                case UnreadableRun() as run:
                    unreadable.append(run)
        self.unreadable = unreadable
        return found


def _stamp(folder: Path) -> Stamp:
    """Changes whenever somebody writes to the store in `folder`."""
    stamp = []
    for name in (FILE_NAME, f"{FILE_NAME}-wal"):
        try:
            status = (folder / name).stat()
            stamp += [status.st_mtime_ns, status.st_size]
        except OSError:
            stamp += [0, 0]
    return tuple(stamp)
