"""A few of the kills of `python -m tests.faults.supervisor_kills`."""

from __future__ import annotations

import os

import pytest

from tests.faults.supervisor_kills import Outcome, kill_supervisors
from tests.support.runs import spec
from tests.support.sentences import sentence

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.nightly,
    pytest.mark.skipif(os.name != "posix", reason="it kills with SIGKILL"),
]


def test_killed_supervisors_cost_no_step_and_leave_no_process() -> None:
    outcome = Outcome()
    wanted = spec("endless_counter", "torch/single", epochs=1_000_000, queue="always")
    kill_supervisors(outcome, wanted, 4, seed=0)
    print(outcome.table())
    assert outcome.faults == []
    assert sum(tally.kills for tally in outcome.tallies.values()) == 4
    assert outcome.points_compared > 0


def test_lost_steps_are_found() -> None:
    """Workers that leave at once save nothing."""
    outcome = Outcome()
    wanted = spec("endless_counter", "torch/single", epochs=1_000_000, orphan_seconds=0)
    kill_supervisors(outcome, wanted, 1, seed=0)
    [lost] = outcome.faults
    assert sentence("steps-were-done-and-saved") in lost
    assert outcome.tallies["training"].steps_lost > 0
