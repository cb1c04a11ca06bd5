"""What DDP measures of its communication; it is made up here."""

from __future__ import annotations

from typing import Any

import pytest

from engine.pytorch.parallelism.ddp import DDPModel


def measured(replicas: int, *logged: dict[str, int]) -> float:
    """Seconds of communication in 10 steps, if the DDP of each optimizer has `logged` its times."""
    model = object.__new__(DDPModel)
    model.replicas = replicas
    ddps: dict[str, Any] = {str(number): _Ddp(times) for number, times in enumerate(logged)}
    model._ddps = ddps
    return model.communication_seconds(10)


class _Ddp:
    def __init__(self, logged: dict[str, int]) -> None:
        self._get_ddp_logging_data = lambda: logged


def test_communication_counts_in_every_step_as_far_as_no_computing_hides_it() -> None:
    sampled = {"backward_comm_time": 7_000_000, "backward_compute_comm_overlap_time": 2_000_000}
    assert measured(2, sampled) == pytest.approx(0.05)
    assert measured(2, sampled, sampled) == pytest.approx(0.1), "one DDP per optimizer"
    assert measured(2, {}) == 0, "no step is sampled yet"
    assert measured(1, sampled) == 0
    hidden = {"backward_comm_time": 2_000_000, "backward_compute_comm_overlap_time": 3_000_000}
    assert measured(2, hidden) == 0
