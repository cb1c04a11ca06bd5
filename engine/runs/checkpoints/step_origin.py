"""Which attempt of a run has trained a step, and from where the step can be trained again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.messages.events import AttemptStarted, Event, Rewound


class TrainedFrom(NamedTuple):
    """The steps of one attempt."""

    attempt: int
    first: int
    """The step after which it began: that of a checkpoint, or 0."""


class StepOrigin(NamedTuple):
    """From where a step can be trained again."""

    checkpoint: Path | None
    """The folder of the nearest earlier one; None: the beginning of the run."""

    step: int
    """The step of the checkpoint; 0: the beginning."""

    attempt: int
    """The one that has trained the step, in whose curves it is."""


class NoOrigin(Exception):
    """A step cannot be trained again; the text is a sentence that says why."""


def attempts_of(events: Iterable[Event]) -> list[TrainedFrom]:
    """Return the attempts of a run, in their order."""
    found: list[TrainedFrom] = []
    for event in events:
        match event:
            case AttemptStarted(attempt=attempt):
                found.append(TrainedFrom(attempt, 0))
            case Rewound(step=step) if found:
                found[-1] = found[-1]._replace(first=step)
    return found


def step_origin(
    step: int,
    attempts: Sequence[TrainedFrom],
    saved: tuple[int, Path] | None,
    trains_alike: Callable[[int, int], bool],
) -> StepOrigin:
    """Return from where `step`, which is in the curves, can be trained again.

    `saved`: step and folder of the newest intact checkpoint before it; None: there is none.
    `trains_alike`: whether two attempts have the same settings and recipe: the steps of both can
    then be trained as one. Raises NoOrigin.
    """
    at = max((n for n, each in enumerate(attempts) if each.first < step), default=-1)
    if at < 0:
        raise NoOrigin(f"Which attempt has trained step {step:,} is not recorded.")
    last = attempts[at].attempt
    while True:
        first = attempts[at].first
        if saved is not None and saved[0] >= first:
            return StepOrigin(saved[1], saved[0], last)
        if first == 0:
            return StepOrigin(None, 0, last)
        at = max((n for n in range(at) if attempts[n].first < first), default=-1)
        if at < 0 or not trains_alike(attempts[at].attempt, last):
            raise NoOrigin(
                f"The checkpoint of step {first:,}, from which attempt {last} trained step "
                f"{step:,}, is gone, and the steps before it were trained with other settings."
            )
