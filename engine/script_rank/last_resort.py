"""Holds figures of the output back until it is known what the script reports otherwise."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from engine.messages.merged_metrics import LARGEST_STEP
from engine.script_rank.figures import (
    Figure,
    Line,
    RepeatedFigures,
    is_of_steps,
    is_of_validation,
    line_key,
)

PATIENCE_SECONDS = 15.0
"""Time that the first figures of the output wait for better ones."""

LOADED_SECONDS = 60.0
"""That time for a command that has imported a framework and has not made a step: it may compile."""

PATIENCE_STEPS = 5
"""That time in steps, for a command that makes steps."""

MOST_KEPT = 200_000
MOST_ALIKE = 1000
"""Lines with one and the same text that wait at most."""

NOTE_SECONDS = 5.0
"""Time for the script to tell the step of a line. One that no Python of it has printed has the step
that was known when the line came."""


class Heard(NamedTuple):
    """What the script has reported otherwise."""

    loads: bool = False
    """It has imported a framework whose steps are seen."""

    step: int = 0
    """Its last step."""

    has_stepped: bool = False
    step_seconds: float = 0.0

    losses: bool = False
    """Losses or learning rates of its steps, which the script need not log."""

    has_loss: bool = True
    """What a step reports has its loss, which a compiled function of TensorFlow may hide."""

    logs: bool = False
    """It logs figures."""


class _Kept(NamedTuple):
    figure: Figure
    step: int
    """The one that was known when the line came."""

    since: float


class LastResort:
    """Decides which figures of lines become curves, and when.

    All of them if the script reports nothing else; those that its steps do not tell, of the lines
    about its validations, if only the steps are seen; none if it logs figures.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or time.monotonic
        self._kept: list[_Kept] = []
        self._lines: defaultdict[str, deque[Line]] = defaultdict(_few)
        """Those whose step is not known, oldest first; by `line_key`."""

        self._notes: defaultdict[str, deque[int]] = defaultdict(_few)
        """Steps of lines that have not come yet, in the same way."""

        self.is_full = False
        """Whether figures found no room."""

        self._since = 0.0
        self._is_sure = False
        self._repeated = RepeatedFigures()

    def add(self, figures: Iterable[Figure], heard: Heard) -> None:
        """Keep the figures of new lines."""
        if not self._kept:
            self._since = self._clock()
        now = self._clock()
        found = [_Kept(figure, heard.step, now) for figure in figures]
        self.is_full |= len(self._kept) + len(found) > MOST_KEPT
        del found[MOST_KEPT - len(self._kept) :]
        self._kept += found
        for line in dict.fromkeys(kept.figure.line for kept in found):
            if line is not None:
                self._expect(line)

    def printed(self, lines: Iterable[tuple[str, int]]) -> None:
        """Take notes of the script: lines that it has written, each with its step."""
        for text, step in lines:
            key = line_key(text)
            if not 0 <= step <= LARGEST_STEP:
                continue
            if waiting := self._lines.get(key):
                waiting.popleft().step = step
                if not waiting:
                    del self._lines[key]
            elif len(self._notes) < MOST_KEPT:
                self._notes[key].append(step)

    def _expect(self, line: Line) -> None:
        if steps := self._notes.get(line.key):
            line.step = steps.popleft()
            if not steps:
                del self._notes[line.key]
        elif len(self._lines) < MOST_KEPT:
            self._lines[line.key].append(line)

    def take(self, heard: Heard, *, final: bool = False) -> list[Figure]:
        """Return those that are due; `final`: the script has ended."""
        if heard.logs:
            self._kept.clear()
            self._lines.clear()
            self._notes.clear()
            return []
        if heard.losses:
            self._kept = [each for each in self._kept if _is_needed(each.figure, heard)]
        if not final and not (self._kept and self._is_over(heard)):
            return []
        self._is_sure = True
        if not heard.losses:
            kept, self._kept = self._kept, []
            self._lines.clear()
            return self._repeated.take([each.figure for each in kept], final=final)
        # A validation tells its progress in several lines, and the last one has the result.
        last: dict[tuple[str, int], float] = {}
        done = 0
        for figure, known, since in self._kept:
            is_late = final or since < self._late()
            step = self._step_of(figure.line, known, is_late=is_late)
            if figure.line is None and figure.step >= known:  # a line for each step, perhaps
                step = figure.step if figure.step <= heard.step else known if is_late else None
            if step is None or (step >= heard.step and not final):
                break
            last[figure.series, step] = figure.value
            done += 1
        del self._kept[:done]
        return [Figure(series, step, value) for (series, step), value in last.items()]

    def _late(self) -> float:
        return self._clock() - NOTE_SECONDS

    def _step_of(self, line: Line | None, known: int, *, is_late: bool) -> int | None:
        """Return the step after which a figure was printed; None: wait for the script's note."""
        if line is None or (line.step is None and is_late):
            return known
        return line.step

    def _is_over(self, heard: Heard) -> bool:
        """Whether the figures have waited long enough for better ones."""
        if self._is_sure or self._has_second_validation(heard.step):
            return True
        patience = PATIENCE_SECONDS
        if heard.has_stepped:
            patience = max(patience, PATIENCE_STEPS * heard.step_seconds)
        elif heard.loads:
            patience = LOADED_SECONDS
        return self._clock() - self._since > patience

    def _has_second_validation(self, done: int) -> bool:
        """Whether a figure was printed again at a later step, before the last one that is done.

        A script that logs its validations would have logged the first one by then.
        """
        first: dict[str, int] = {}
        return any(
            line.step < done and first.setdefault(figure.series, line.step) != line.step
            for figure, _, _ in self._kept
            if (line := figure.line) is not None and line.step is not None
        )


def _is_needed(figure: Figure, heard: Heard) -> bool:
    """Whether the steps do not tell a figure, such as the accuracies of `Train: 0.9, Val: 0.8`."""
    is_beside = figure.line is not None and not is_of_steps(figure.series)
    is_hidden = figure.series == "train/loss" and not heard.has_loss
    return is_beside or is_hidden or is_of_validation(figure.series)


def _few() -> deque[Any]:
    return deque(maxlen=MOST_ALIKE)
