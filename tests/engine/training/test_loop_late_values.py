"""The training loop with a trainer whose values are on their way from the device for a while."""

from __future__ import annotations

import math

import pytest

from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved, Metrics
from engine.training import loop
from engine.training.errors import LossNotFinite
from tests.support.loop_doubles import FIRST, STEPS, Training, every_batch


@pytest.fixture
def late(training: Training) -> Training:
    """Chunks of one step, as those of large models."""
    training.trainer.waits = True
    return training


def values_read_when_begun(training: Training) -> list[tuple[int, int]]:
    """Run; return for each batch its step, and the last step whose values were read before it."""
    seen: list[tuple[int, int]] = []
    trainer = training.trainer

    def after(moment: tuple[str, int, int]) -> None:
        what, epoch, batch = moment
        if what == "train":
            seen.append((epoch * STEPS + batch + 1, max(trainer.read, default=0)))

    trainer.after = after
    training.run()
    return seen


def test_the_values_of_steps_are_read_when_the_next_ones_are_on_their_way(late: Training) -> None:
    seen = values_read_when_begun(late)
    assert [step - read for step, read in seen] == [1, 2, 2, 2, 1, 2, 2, 2], (
        "only the first step of an epoch finds everything read: a validation came before it"
    )


def test_values_that_are_on_the_host_are_read_at_once(training: Training) -> None:
    assert all(step - read == 1 for step, read in values_read_when_begun(training))


def test_every_step_is_reported_once_and_in_order(late: Training) -> None:
    late.run()
    assert late.trainer.done == every_batch()
    assert late.curve("train/loss") == [(step, 1 / step) for step in range(1, 9)]


def test_a_checkpoint_comes_after_the_values_of_its_steps(late: Training) -> None:
    late.post(("train", 0, 1), SaveCheckpoint())
    sent = late.run()
    saved = next(n for n, event in enumerate(sent) if isinstance(event, CheckpointSaved))
    steps = [event.points[0].steps[-1] for event in sent[:saved] if isinstance(event, Metrics)]
    assert max(steps) == 2


def test_a_stop_loses_no_values(late: Training) -> None:
    late.post(FIRST, Stop())
    late.run()
    assert [step for step, _ in late.curve("train/loss")] == [1]


def test_a_loss_that_is_not_finite_ends_the_run_one_chunk_later(late: Training) -> None:
    late.change_spec(on_nan="stop")
    late.trainer.loss = lambda step: math.nan if step == 2 else 1.0
    with pytest.raises(LossNotFinite, match="step 2"):
        late.run()
    assert len(late.trainer.done) == 3


def test_steps_that_fail_do_not_take_the_values_before_them_along(late: Training) -> None:
    def fail(moment: tuple[str, int, int]) -> None:
        if moment == ("train", 0, 2):
            raise ValueError("the third step")

    late.trainer.after = fail
    with pytest.raises(ValueError, match="third"):
        late.run()
    assert [step for step, _ in late.curve("train/loss")] == [1, 2]


def test_the_time_of_steps_is_the_one_between_two_reads(
    late: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is done with the steps long before the device is."""
    clock = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock[0])
    late.trainer.on_read = lambda: clock.__setitem__(0, clock[0] + 2.0)
    late.run()
    rates = {value for _, value in late.curve("train/samples_per_second")}
    assert rates == {16.0}
