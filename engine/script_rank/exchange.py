"""The folder that the ranks of one attempt share: markers, the agreed step, the sockets."""

from __future__ import annotations

import contextlib
from pathlib import Path

from engine.files.atomic_file import write_atomically

AGREEMENT = "step"
"""The file with the step at which all ranks act; the scripts write and read it."""


class Exchange:
    """What the processes of the ranks tell each other. The folder is private, on a local disk."""

    def __init__(self, folder: Path, rank: int, ranks: int) -> None:
        self.folder = folder
        self._rank = rank
        self._ranks = ranks

    @property
    def socket(self) -> Path:
        """Where this rank listens; its name is short, as the paths of sockets are."""
        return self.folder / f"r{self._rank}"

    @property
    def agreement(self) -> Path:
        """The file of the agreed step."""
        return self.folder / AGREEMENT

    def note(self, what: str, text: str = "") -> None:
        """Leave a marker of this rank. Raises OSError."""
        write_atomically(self._marker(what, self._rank), text)

    def of_all(self, what: str) -> list[str] | None:
        """Return what every rank has noted, by rank; None while one has not."""
        found = []
        for rank in range(self._ranks):
            try:
                found.append(self._marker(what, rank).read_text())
            except OSError:
                return None
        return found

    def of_rank_zero(self, what: str) -> str:
        """Return what rank 0 has noted; empty: nothing."""
        with contextlib.suppress(OSError):
            return self._marker(what, 0).read_text()
        return ""

    def forget(self, what: str) -> None:
        """Remove the markers of all ranks."""
        for rank in range(self._ranks):
            self._marker(what, rank).unlink(missing_ok=True)

    def _marker(self, what: str, rank: int) -> Path:
        return self.folder / f"{what}-{rank}"
