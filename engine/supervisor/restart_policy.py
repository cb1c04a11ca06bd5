"""Whether an attempt that failed is followed by another one, and from where."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import NamedTuple

from engine.runs import checkpoint_files

_log = logging.getLogger(__name__)


class Setback(NamedTuple):
    """How far an attempt came before it failed."""

    message: str
    """What failed, in a sentence."""

    step: int
    """The last step that was reported."""

    reach: int
    """The last step that may have been done by then: workers report chunks of steps."""

    def is_like(self, other: Setback) -> bool:
        """Whether the same happened at the same step, as far as can be told."""
        first, last = max(self.step, other.step), min(self.reach, other.reach)
        return self.message == other.message and first <= last


class Restarts:
    """Counts the automatic restarts of one supervisor."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.done = 0
        self.refusal = ""
        """Why the last failure was not followed by a restart, where that needs saying."""

        self._before: Setback | None = None

    def grant(self, setback: Setback) -> bool:
        """Whether to begin again after `setback`; a restart that is granted is counted."""
        if not self.most:
            return False
        if self._before and setback.is_like(self._before):
            step = max(setback.step, self._before.step)
            self.refusal = (
                f"It fails every time after step {step}, so it was not restarted once more."
            )
            return False
        self._before = setback
        if self.done == self.most:
            times = "once" if self.most == 1 else f"{self.most} times"
            self.refusal = f"It was restarted {times} already."
            return False
        self.done += 1
        return True


class Reach:
    """Follows the reports of steps, to tell how far an attempt may be beyond the last one."""

    def __init__(self, step: int) -> None:
        self.step = step
        self._chunk = 1

    def reported(self, step: int) -> None:
        """Rank 0 has done all steps up to `step`."""
        if step > self.step:
            self._chunk, self.step = step - self.step, step

    @property
    def furthest(self) -> int:
        """A chunk is at most twice as long as the one before it: see `engine.training.pace`."""
        return self.step + 2 * self._chunk


class Search(threading.Thread):
    """Looks for the newest checkpoint whose files are all what was saved; that may take minutes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True, name="search")
        self.found = ""
        """Name of the checkpoint, once the thread is done; empty: there is none."""

        self._folder = folder
        self.start()

    def run(self) -> None:
        """Compare checksums, newest first."""
        for folder in reversed(checkpoint_files.folders(self._folder).values()):
            try:
                checkpoint_files.verify(folder)
            except checkpoint_files.CheckpointDamaged as error:
                _log.info("checkpoint %s is damaged: %s", folder.name, error)
                continue
            self.found = folder.name
            return
