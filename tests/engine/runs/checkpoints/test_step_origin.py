"""A step is trained again from the nearest checkpoint of the attempt in whose curves it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.messages.events import AttemptStarted, Rewound
from engine.runs.checkpoints.step_origin import (
    NoOrigin,
    StepOrigin,
    TrainedFrom,
    attempts_of,
    step_origin,
)

ATTEMPTS = [TrainedFrom(1, 0), TrainedFrom(2, 100), TrainedFrom(3, 60), TrainedFrom(4, 200)]
"""The third one went on from an earlier checkpoint than the second, whose steps are gone."""


def origin(step: int, saved: int | None = None, *, alike: bool = False) -> StepOrigin:
    checkpoint = None if saved is None else (saved, Path(f"step-{saved}"))
    return step_origin(step, ATTEMPTS, checkpoint, lambda one, other: alike)


def test_attempts_begin_where_they_were_rewound_to() -> None:
    events = [AttemptStarted(1, 0, 0.0), AttemptStarted(2, 0, 0.0), Rewound(100, "step-100")]
    assert attempts_of(events) == ATTEMPTS[:2]


@pytest.mark.parametrize(
    ("step", "saved", "expected"),
    [
        (1, None, StepOrigin(None, 0, 1)),
        (60, None, StepOrigin(None, 0, 1)),
        (61, 60, StepOrigin(Path("step-60"), 60, 3)),
        (150, 140, StepOrigin(Path("step-140"), 140, 3)),
        (201, 200, StepOrigin(Path("step-200"), 200, 4)),
    ],
)
def test_the_nearest_earlier_checkpoint_of_its_attempt_is_taken(
    step: int, saved: int | None, expected: StepOrigin
) -> None:
    assert origin(step, saved) == expected


def test_an_earlier_one_is_taken_only_if_all_steps_since_had_the_same_settings() -> None:
    assert origin(201, 140, alike=True) == StepOrigin(Path("step-140"), 140, 4)
    assert origin(201, alike=True) == StepOrigin(None, 0, 4)
    with pytest.raises(NoOrigin, match="step 200"):
        origin(201, 140)


def test_a_run_without_attempts_has_no_origin() -> None:
    with pytest.raises(NoOrigin, match="step 5"):
        step_origin(5, [], None, lambda one, other: True)
