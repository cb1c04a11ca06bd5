"""How long a training is: in epochs, or in optimizer steps."""

from __future__ import annotations

import os

from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.run_spec import RunSpec

REPLAY_TO = "TRAINDECK_REPLAY_TO"
"""The environment variable of a run that trains steps of another one again: the last of them."""


KEEP_REPLAYED = "TRAINDECK_KEEP_REPLAYED"
"""The environment variable of such a run that saves a checkpoint of that step."""


def last_replayed_step() -> int:
    """Return the last step of a replay; 0: this run is none."""
    return int(os.environ.get(REPLAY_TO, "0"))


def total_steps(spec: RunSpec, position: Position, steps_per_epoch: int) -> int:
    """Return the steps of the whole run, if it goes on from `position`; 0 if that is not known.

    It is not known if an epoch has no known length (`steps_per_epoch` is 0). Every later boundary
    gives the same result.
    """
    if spec.steps:
        return max(spec.steps, position.step)
    return position.total_steps(steps_per_epoch, spec.epochs) if steps_per_epoch else 0


def epochs(spec: RunSpec) -> int:
    """Return the epochs of the whole run; 0 if its length is in steps."""
    return 0 if spec.steps else spec.epochs


def is_over(spec: RunSpec, position: Position, *, has_validated: bool) -> bool:
    """Return whether the training is over at `position`.

    `has_validated`: the epoch that the last step did not complete was validated.
    """
    if not spec.steps:
        return position.epoch >= spec.epochs
    is_validated = has_validated or position.batch == 0
    return position.step >= spec.steps and is_validated
