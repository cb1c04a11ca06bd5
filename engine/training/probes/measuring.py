"""What the ranks measure after their steps, for a preflight: figures, recorded as series."""

from __future__ import annotations

import os
import time

from engine.messages.events import Metrics, Notice, Points
from engine.training.protocols import Session, Trainer

MEASURE = "TRAINDECK_MEASURE"
"""The environment variable of a run that is measured: the seconds that its ranks have for it."""

PREFIX = "measured/"
"""How the names of the series begin; figures of one rank go on with `rank/<number>/`."""

MOST_SAVED = 50_000_000
"""Trainable parameters: the checkpoint of a larger model is not written for a preflight."""


SIZES = tuple(4**power * 1024 for power in range(9))
"""Bytes of the messages of an all-reduce: 1 KiB to 64 MiB."""

MOST_REPEATS = 20


def repeats_of(seconds_each: float, seconds_left: float) -> int:
    """Return how often to repeat an all-reduce; 0: there is no time for it."""
    return max(0, min(MOST_REPEATS, int(seconds_left / 2 / max(seconds_each, 1e-6))))


class Measurements:
    """Takes the figures of one rank, and knows how much time is left."""

    def __init__(self, session: Session, seconds: float) -> None:
        self._session = session
        self._ends_at = time.monotonic() + seconds
        self.seconds = seconds
        """For all measurements together."""

        self.is_rank_zero = session.rank == 0

    @property
    def seconds_left(self) -> float:
        """For what is not measured yet; ranks differ a little, so let rank 0 decide for all."""
        return max(0.0, self._ends_at - time.monotonic())

    def tell(self, name: str, value: float) -> None:
        """Record a figure that is the same on all ranks; rank 0's counts."""
        if self.is_rank_zero:
            self._emit(name, value)

    def tell_of_rank(self, name: str, value: float) -> None:
        """Record a figure of this rank."""
        self._emit(f"rank/{self._session.rank}/{name}", value)

    def note(self, text: str) -> None:
        """Say a sentence."""
        self._session.emit(Notice(text, self._session.rank))

    def _emit(self, name: str, value: float) -> None:
        now = time.time()
        self._session.emit(Metrics(now, now, [Points(PREFIX + name, [0], [value])]))


def measure_if_asked(trainer: Trainer, session: Session) -> bool:
    """Let the trainer measure, if this run is a preflight's; all ranks call it after their steps.

    Return whether the last checkpoint is to be saved.
    """
    seconds = os.environ.get(MEASURE)
    if not seconds or session.is_orphaned:
        return True
    if (measure := getattr(trainer, "measure", None)) is not None:
        measure(Measurements(session, float(seconds)))
    return trainer.parameters <= MOST_SAVED
