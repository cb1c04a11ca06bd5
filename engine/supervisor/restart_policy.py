"""Decides whether a failed attempt is restarted, and from which checkpoint."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from engine.files.disk_errors import disk_problem, short_reason
from engine.runs.checkpoints import checkpoint_files, checkpoint_place

_log = logging.getLogger(__name__)


class FailurePoint(NamedTuple):
    """Where an attempt failed, and with which message."""

    message: str
    """The failure, in a sentence."""

    reported: int
    """The last step that was reported."""

    possible: int
    """The last step that may have been done: workers report chunks of steps."""

    def matches(self, other: FailurePoint) -> bool:
        """Return whether both may be one failure: equal messages, and step bounds that overlap."""
        first, last = max(self.reported, other.reported), min(self.possible, other.possible)
        return self.message == other.message and first <= last


class RestartPolicy:
    """Grants the automatic restarts of one supervisor, and counts them."""

    def __init__(self, most: int) -> None:
        self.limit = most
        self.count = 0
        self.refusal = ""
        """Why the last failure was not restarted: a sentence for the user, or empty."""

        self._previous: FailurePoint | None = None

    def grant(self, failed_at: FailurePoint) -> bool:
        """Return whether to restart after a failure; count the restart if so."""
        if not self.limit:
            return False
        if self._previous and failed_at.matches(self._previous):
            step = max(failed_at.reported, self._previous.reported)
            self.refusal = (
                f"It fails every time after step {step}, so it was not restarted once more."
            )
            return False
        self._previous = failed_at
        if self.count == self.limit:
            times = "once" if self.limit == 1 else f"{self.limit} times"
            self.refusal = f"It was restarted {times} already."
            return False
        self.count += 1
        return True


class StepBounds:
    """The lowest and highest step that an attempt may have reached: workers report chunks."""

    def __init__(self, step: int) -> None:
        self.reported = step
        """The last step that was reported."""

        self._chunk = 1
        self._longest = sys.maxsize

    def report(self, step: int) -> None:
        """Note that rank 0 has done all steps up to `step`."""
        if step > self.reported:
            # After a stall, one report stands for many chunks; a chunk at most doubles.
            self._chunk = min(step - self.reported, self._longest)
            self._longest, self.reported = 2 * self._chunk, step

    @property
    def possible(self) -> int:
        """The last step that may be done; `engine.training.pace` at most doubles a chunk."""
        return self.reported + 2 * self._chunk


class CheckpointSearch(threading.Thread):
    """Finds the newest checkpoint with right checksums, in a thread, as it may take minutes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True, name="checkpoint-search")
        self.found = ""
        """Name of the checkpoint once the thread has ended; empty if there is none."""

        self.problem = "the search for them has failed"
        """Why it is not known whether there is one, in a few words; empty if that is known."""

        self._folder = folder
        self.start()

    def run(self) -> None:
        """Verify the checkpoints, newest first."""
        problem = ""
        try:
            checkpoint_place.check(self._folder)
            newest_first = reversed(checkpoint_files.folders(self._folder).values())
        except checkpoint_place.PlaceAway as error:
            self.problem = str(error)
            return
        except OSError as error:
            self.problem = short_reason(error)
            return
        for folder in newest_first:
            try:
                checkpoint_files.verify(folder)
            except checkpoint_files.CheckpointDamaged as error:
                _log.info("checkpoint %s is damaged: %s", folder.name, error)
                problem = problem or disk_problem(error)
                continue
            self.found = folder.name
            break
        self.problem = "" if self.found else problem
