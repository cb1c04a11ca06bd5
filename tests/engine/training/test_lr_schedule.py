"""Learning-rate schedules, held against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR

from engine.training.lr_schedule import factor

STEPS = 50


def torchs(make: type[LRScheduler], **options: object) -> list[float]:
    """The rates that one of torch's schedulers gives a rate of 1."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    scheduler = make(optimizer, **options)  # type: ignore[arg-type]
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def ours(schedule: str, warmup_steps: int = 0) -> list[float]:
    return [factor(schedule, warmup_steps, step, STEPS) for step in range(STEPS)]


def test_constant() -> None:
    assert ours("constant") == [1.0] * STEPS


def test_cosine_is_torchs() -> None:
    assert ours("cosine") == pytest.approx(torchs(CosineAnnealingLR, T_max=STEPS))


def test_one_cycle_is_torchs() -> None:
    options = {"max_lr": 1.0, "total_steps": STEPS + 1, "cycle_momentum": False}
    reference = torchs(OneCycleLR, **options)
    got = [factor("one_cycle", 0, step, STEPS + 1) for step in range(STEPS)]
    assert got == pytest.approx(reference)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_warm_up_rises_linearly_to_the_full_rate(schedule: str) -> None:
    rates = ours(schedule, warmup_steps=5)
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[5] == pytest.approx(1.0)


def test_cosine_after_warm_up_ends_where_it_would_without() -> None:
    assert factor("cosine", 10, STEPS, STEPS) == pytest.approx(0.0)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "one_cycle"])
@pytest.mark.parametrize("total", [1, 2, 3])
@pytest.mark.parametrize("warmup_steps", [0, 1, 10])
def test_no_length_of_a_run_is_too_short(schedule: str, total: int, warmup_steps: int) -> None:
    for step in range(total):
        assert 0 <= factor(schedule, warmup_steps, step, total) <= 1
