"""Learning-rate schedules: the factor of a step, computed from its number.

A schedule has no state, so a resumed run continues it exactly.
"""

from __future__ import annotations

import math

ONE_CYCLE_RISE = 0.3
"""Fraction of the steps in which the learning rate rises. This and the two factors below are the
defaults of torch's OneCycleLR (super-convergence, Smith and Topin, 2018)."""

ONE_CYCLE_FIRST = 1 / 25
ONE_CYCLE_LAST = ONE_CYCLE_FIRST / 1e4


def factor(schedule: str, warmup_steps: int, step: int, total_steps: int) -> float:
    """Return the factor of the learning rate for the update after `step` steps (from 0).

    `schedule` is one of `RunSpec.schedule`; `total_steps` is the length of the whole run.
    """
    warmup = min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0
    match schedule:
        case "cosine":
            return warmup * _cosine(1.0, 0.0, step - warmup_steps, total_steps - warmup_steps)
        case "one_cycle":
            return _one_cycle(step, total_steps)
        case _:
            return warmup


def _one_cycle(step: int, total_steps: int) -> float:
    peak = ONE_CYCLE_RISE * total_steps - 1
    if step <= peak:
        return _cosine(ONE_CYCLE_FIRST, 1.0, step, peak)
    return _cosine(1.0, ONE_CYCLE_LAST, step - peak, total_steps - 1 - peak)


def _cosine(first: float, last: float, step: float, steps: float) -> float:
    """Return the value after `step` of `steps`, on half a cosine from `first` to `last`."""
    progress = min(1.0, max(0.0, step / steps)) if steps > 0 else 1.0
    return last + (first - last) * (1 + math.cos(math.pi * progress)) / 2
