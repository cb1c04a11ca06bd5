"""Whether a run has used the time or the energy that its settings allow."""

from __future__ import annotations

from engine.runs.run_state import RunStatus
from engine.spec.run_spec import RunSpec


def limit_reached(spec: RunSpec, status: RunStatus, now: float) -> str:
    """Return which limit the run has reached, in a sentence; empty: none. `now` in seconds since
    the epoch."""
    minutes = status.seconds(now) / 60
    if spec.time_limit_minutes and minutes >= spec.time_limit_minutes:
        return f"The time limit of {spec.time_limit_minutes:g} min is reached."
    if spec.energy_limit_wh and status.energy >= spec.energy_limit_wh:
        return f"The energy limit of {spec.energy_limit_wh:g} Wh is reached."
    return ""
