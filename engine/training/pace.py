"""The speed of the training: the length of a chunk, samples per second, the time left."""

from __future__ import annotations

CHUNK_SECONDS = 0.1
"""Intended time between two step boundaries, and so between two updates of a curve."""

MOST_STEPS = 1000
HALF_LIFE = 60.0
"""Seconds of work after which a measurement has half its weight in the estimated time left."""

RATE_HALF_LIFE = 5.0
"""The same for the samples per second and the step time: short enough to show a change, and longer
than a last batch that has fewer samples."""

WARM_UP_CHUNKS = 2
"""Chunks whose steps take longer than those that follow: the first one compiles and imports, and
before the second one it is found out whether a checkpoint can be saved."""

_FORWARD_ONLY = 1 / 3
"""Estimated time of a validation batch in steps, until one is measured: it has no backward pass."""


class _MeanSeconds:
    """Mean time of one step, batch or sample, over the last seconds or minutes of such work."""

    def __init__(self, half_life: float = HALF_LIFE) -> None:
        self._half_life = half_life
        self._chunks = 0
        self._count = 0.0
        self._seconds = 0.0

    @property
    def mean(self) -> float:
        """Seconds of one of them; 0 before the first."""
        return self._seconds / self._count if self._count else 0.0

    def add(self, count: float, seconds: float) -> None:
        # The first chunk also compiles and imports, so the second one replaces it.
        keep = 0.5 ** (seconds / self._half_life) if self._chunks > 1 else 0.0
        self._chunks += 1
        self._count = keep * self._count + count
        self._seconds = keep * self._seconds + seconds


class Pace:
    """Measures steps and validation. Pauses and checkpoints are not part of the times."""

    def __init__(self) -> None:
        self.chunk = 1
        """Steps to do before the next step boundary."""

        self.validation_chunk = 1
        """Validation batches to do before the next step boundary."""

        self._sample = _MeanSeconds(RATE_HALF_LIFE)
        self._recent_step = _MeanSeconds(RATE_HALF_LIFE)
        self._step = _MeanSeconds()
        self._validation = _MeanSeconds()
        self._chunks = 0
        self._untaken = 0, 0.0
        """Steps since the last `take_step_seconds`, and their seconds."""

    @property
    def is_warm(self) -> bool:
        """Whether the last steps were as those that follow, and no part of the warm-up."""
        return self._chunks > WARM_UP_CHUNKS

    @property
    def step_seconds(self) -> float:
        """Seconds of one step, a mean over the same time as `samples_per_second`, so that both say
        the same; 0 before the first step."""
        return self._recent_step.mean

    @property
    def samples_per_second(self) -> float:
        """Samples that all replicas together have trained on, per second of the steps: a mean over
        the last seconds. The time that steps wait for data counts; no validation does."""
        seconds = self._sample.mean
        return 1 / seconds if seconds else 0.0

    def trained(self, steps: int, samples: float, seconds: float) -> None:
        """Note that `steps` took `seconds`, and set the next chunk. `samples`: of all replicas."""
        self._sample.add(samples, seconds)
        self._recent_step.add(steps, seconds)
        self._step.add(steps, seconds)
        self._chunks += 1
        if self.is_warm:
            self._untaken = self._untaken[0] + steps, self._untaken[1] + seconds
        self.chunk = _next_chunk(steps, seconds / steps)

    def take_step_seconds(self) -> float | None:
        """Return the mean seconds of the steps since the last call; None if there was none after
        the warm-up."""
        steps, seconds = self._untaken
        if not steps:
            return None
        self._untaken = 0, 0.0
        return seconds / steps

    def validated(self, batches: int, seconds: float) -> None:
        """Note that `batches` validation batches took `seconds`."""
        self._validation.add(batches, seconds)
        self.validation_chunk = _next_chunk(batches, seconds / batches)

    def seconds_left(self, steps: int, validation_batches: int) -> float:
        """Return the estimated time of `steps` steps and `validation_batches` validation batches.

        Each kind has its own mean, because their ratio changes: a run that resumes at the end of an
        epoch validates after a few steps.
        """
        batch = self._validation.mean or _FORWARD_ONLY * self._step.mean
        return steps * self._step.mean + validation_batches * batch


def _next_chunk(count: int, seconds_each: float) -> int:
    """Return the number that fits into CHUNK_SECONDS, at most twice the last number `count`."""
    fitting = int(CHUNK_SECONDS / seconds_each) if seconds_each > 0 else MOST_STEPS
    return max(1, min(fitting, 2 * count, MOST_STEPS))
