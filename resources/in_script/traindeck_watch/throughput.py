"""How many samples the steps of a script have had, and how long the steps themselves took."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

HALF_LIFE = 5.0
"""Seconds of steps after which a measurement has half its weight, as in `engine.training.pace`."""


class Throughput:
    """Measures the steps of this process, but for the first one. What is done between two steps,
    such as a validation, a checkpoint or a pause, is no part of their time; waiting for data is."""

    def __init__(self) -> None:
        self.samples: float | None = None
        """Samples of all ranks that were trained on; None: they are not known."""

        self.counted: Callable[[], float | None] = lambda: self.samples
        """Returns the samples that were trained on until now."""

        self.step_seconds: float | None = None
        """Mean seconds of the steps between the last two looks."""

        self.last_step_at = 0.0
        self._evaluated = (0, 0.0)
        """The id of the model that does not train since this time, with no step since then."""

        self._is_interrupted = True
        self._steps = 0
        self._seconds = 0.0
        self._seen = (0, 0.0)
        self._seen_samples: tuple[int, float] | None = None
        self._looks = 0
        self._of_rate = (0.0, 0.0)

    def stepped(self, new: int = 1, at: float | None = None) -> None:
        """So many steps are done, the last one at that time of `monotonic`; None: now. Costs a
        fraction of a microsecond."""
        now = time.monotonic() if at is None else max(at, self.last_step_at)
        if self._is_interrupted:
            self._is_interrupted = False
        else:
            self._steps += new
            self._seconds += now - self.last_step_at
        self.last_step_at = now
        self._evaluated = (0, now)

    def add(self, samples: float) -> None:
        """Steps have had so many samples."""
        self.samples = (self.samples or 0.0) + samples

    def interrupted(self) -> None:
        """Something else than a step is done now: the time until the next step does not count."""
        self._is_interrupted = True

    def goes_on(self) -> None:
        """What interrupted the steps has ended just now: the next step is measured again."""
        if self.last_step_at:
            self.last_step_at = time.monotonic()
            self._is_interrupted = False

    def evaluates(self, model: Any) -> None:
        """The script calls `eval` of a model."""
        self._evaluated = (id(model), time.monotonic())

    @property
    def is_evaluating(self) -> bool:
        """Whether a model was set to `eval`, and not to `train` or to gradients since."""
        return self._evaluated[0] != 0

    def trains(self, model: Any) -> None:
        """The script calls `train` of a model: if it was evaluated until now, and not trained in
        this mode, that time was a validation between two steps."""
        evaluated, since = self._evaluated
        if id(model) == evaluated:
            now = time.monotonic()
            self.last_step_at += now - max(since, self.last_step_at)
            self._evaluated = (0, now)

    def computes_gradients(self) -> None:
        """What was evaluated until now is trained in this mode: it was no validation."""
        self._evaluated = (0, 0.0)

    def saved(self, since: float) -> None:
        """The script has written a checkpoint since that time of `monotonic`, in the thread that
        trains."""
        if 0 < self.last_step_at <= since:
            seconds = time.monotonic() - since
            self.last_step_at += seconds
            model, evaluated_at = self._evaluated
            self._evaluated = (model, evaluated_at + seconds)  # or `trains` counts them again

    def look(self, step: int) -> float | None:
        """Measure the steps since the last look, of which `step` was the last; return their samples
        per second, a mean over the last seconds. None: they are not known."""
        steps, seconds = self._steps - self._seen[0], self._seconds - self._seen[1]
        total = self.counted()
        if steps > 0:
            self._seen = (self._steps, self._seconds)
            self.step_seconds = seconds / steps
            self._note(step, steps, seconds, total)
        if self._seen_samples is None and total is not None:
            self._seen_samples = (step, total)
        samples, of_seconds = self._of_rate
        return samples / of_seconds if samples > 0 and of_seconds > 0 else None

    def _note(self, step: int, steps: int, seconds: float, total: float | None) -> None:
        if total is None or self._seen_samples is None or step <= self._seen_samples[0]:
            return
        before, known = self._seen_samples
        each = max(0.0, total - known) / (step - before)
        # The first look has the steps that compile and import.
        keep = 0.5 ** (seconds / HALF_LIFE) if self._looks > 1 else 0.0
        self._looks += 1
        self._of_rate = (
            keep * self._of_rate[0] + each * steps,
            keep * self._of_rate[1] + seconds,
        )
        self._seen_samples = (step, total)

    def forget_after_fork(self) -> None:
        """In a forked child: the steps were those of the parent."""
        self.__init__()  # type: ignore[misc]


def fit_sizes() -> Callable[[int], float] | None:
    """Within Keras' `fit`: return a function with the samples of a batch of an epoch, by its number
    from 0; None if its data do not tell. A callback calls it."""
    frame = sys._getframe(1)
    found: Any = None
    while frame is not None and found is None:
        if frame.f_code.co_name == "fit":
            found = frame.f_locals.get("epoch_iterator") or frame.f_locals.get("data_handler")
        frame = frame.f_back  # type: ignore[assignment]
    adapter = getattr(found, "data_adapter", None) or getattr(found, "_adapter", None)
    size, last, count = (
        _value(adapter, name, other)
        for name, other in (
            ("batch_size", ""),
            ("partial_batch_size", ""),
            ("num_batches", "get_size"),
        )
    )
    if not size:
        return None
    return lambda batch: float(last if last and count and batch % count == count - 1 else size)


def _value(thing: Any, name: str, other: str) -> int | None:
    """An attribute or the result of a method, which differs between versions of Keras."""
    found = getattr(thing, name, None)
    if found is None and other:
        found = getattr(thing, other, None)
    if callable(found):
        found = found()
    return found if isinstance(found, int) else None
