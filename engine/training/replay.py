"""The replay of recorded steps: the step with which a worker ends that only repeats a run."""

from __future__ import annotations

import os

REPLAY_TO = "TRAINDECK_REPLAY_TO"
"""The environment variable of a run that repeats another one: the last step that it does."""


def last_replayed_step() -> int:
    """Return the last step of a replay; 0: this run is none."""
    return int(os.environ.get(REPLAY_TO, "0"))
