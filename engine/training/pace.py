"""How fast the training goes: the length of a chunk, the speed that people see, the time left."""

from __future__ import annotations

CHUNK_SECONDS = 0.1
"""Aim for the time between two looks for commands; also how often a curve grows."""

MOST_STEPS = 1000
HALF_LIFE = 60.0
"""Seconds of work after which a measurement counts half: the time left follows a changed speed."""

_SMOOTHING = 0.7
_FORWARD_ONLY = 1 / 3
"""What a validation batch costs, in steps, until one has been measured: it needs no gradients."""


class _Cost:
    """Seconds that one step or batch takes: a mean over the last minutes of doing it."""

    def __init__(self) -> None:
        self._chunks = 0
        self._count = 0.0
        self._seconds = 0.0

    @property
    def one(self) -> float:
        """Seconds; 0 before the first."""
        return self._seconds / self._count if self._count else 0.0

    def add(self, count: int, seconds: float) -> None:
        # The first chunk also compiles and imports: forget it as soon as there is another.
        keep = 0.5 ** (seconds / HALF_LIFE) if self._chunks > 1 else 0.0
        self._chunks += 1
        self._count = keep * self._count + count
        self._seconds = keep * self._seconds + seconds


class Pace:
    """Measures steps and validation on rank 0. Pauses and checkpoints are never part of it."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self.chunk = 1
        """Steps to do before looking for commands again."""

        self.validation_chunk = 1
        """Validation batches, likewise."""

        self.step_seconds = 0.0
        """Smoothed; 0 before the first step."""

        self._chunks = 0
        self._step = _Cost()
        self._validation = _Cost()

    @property
    def samples_per_second(self) -> float:
        """Samples over all replicas, smoothed."""
        return self._batch_size / self.step_seconds if self.step_seconds else 0.0

    def trained(self, steps: int, seconds: float) -> None:
        """Note that `steps` took `seconds`, and set the next chunk."""
        self._chunks += 1
        one = seconds / steps
        if self._chunks <= 2:
            self.step_seconds = one  # the first step also compiles and imports: forget it
        else:
            self.step_seconds = _SMOOTHING * self.step_seconds + (1 - _SMOOTHING) * one
        self._step.add(steps, seconds)
        self.chunk = _next_chunk(steps, one)

    def validated(self, batches: int, seconds: float) -> None:
        """Note that `batches` validation batches took `seconds`."""
        self._validation.add(batches, seconds)
        self.validation_chunk = _next_chunk(batches, seconds / batches)

    def seconds_left(self, steps: int, validation_batches: int) -> float:
        """Time for so many more steps and validation batches.

        Both are measured apart: whoever resumes at the end of an epoch validates after few steps.
        """
        batch = self._validation.one or _FORWARD_ONLY * self._step.one
        return steps * self._step.one + validation_batches * batch


def _next_chunk(count: int, one: float) -> int:
    """As many as fit into CHUNK_SECONDS, but never more than twice as many as were just timed."""
    fitting = int(CHUNK_SECONDS / one) if one > 0 else MOST_STEPS
    return max(1, min(fitting, 2 * count, MOST_STEPS))
