"""From gradients to the next step: clipping, schedules, the optimizers of the spec."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from engine.pytorch.optimizer_step import OptimizerStep, chosen_optimizer
from engine.pytorch.parallel import Rank, WholeModel
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import SingleProcess
from engine.pytorch.recipe.optimizer_plan import SchedulerPlan
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed
from tests.support.sentences import sentence

TOTAL = 10


class Training:
    """One weight of 1 whose gradient the test chooses."""

    def __init__(self, **changes: Any) -> None:
        spec = RunSpec(
            recipe="r",
            strategy="torch/single",
            devices=("cpu:0",),
            **{"learning_rate": 0.1, "optimizer": "sgd"} | changes,
        )
        self.model = nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.model.weight)
        rank = Rank(0, 1, (torch.device("cpu"),), SingleProcess(), spec)
        parallel = WholeModel(self.model, rank)
        optimizer = chosen_optimizer(spec, parallel.parameters())
        assert optimizer is not None
        precision = Precision(spec.precision, "cpu")
        precision.scaler.scale(torch.zeros(()))  # as the backward pass does
        self.update = OptimizerStep(optimizer, parallel, SingleProcess(), precision, spec)

    def step(self, gradient: float, step: int = 0, loss: float = 1.0) -> dict[str, Any]:
        self.update.begin()
        assert self.model.weight.grad is None
        self.model.weight.grad = torch.full((1, 1), gradient)
        return self.update.apply(step, TOTAL, torch.tensor(loss))

    @property
    def weight(self) -> float:
        return float(self.model.weight.detach())


def test_a_plain_step() -> None:
    training = Training()
    assert training.step(2.0) == {"learning_rate": 0.1}
    assert training.weight == pytest.approx(0.8)


def test_the_norm_is_that_before_clipping() -> None:
    training = Training(clip_norm=0.5)
    figures = training.step(-2.0)
    assert float(figures["gradient_norm"]) == 2.0
    assert training.weight == pytest.approx(1.05)


def test_a_recorded_norm_clips_nothing() -> None:
    training = Training(gradient_norm=True)
    assert float(training.step(2.0)["gradient_norm"]) == 2.0
    assert training.weight == pytest.approx(0.8)


def test_the_schedule_decides_the_rate_of_every_step() -> None:
    training = Training(schedule="cosine", warmup_steps=2)
    rates = [training.step(0.0, step)["learning_rate"] for step in range(TOTAL)]
    assert rates[:3] == pytest.approx([0.05, 0.1, 0.1])
    assert rates[-1] < 0.01
    assert rates[2:] == sorted(rates[2:], reverse=True)


def test_a_metric_that_a_scheduler_follows_must_be_there_unless_it_is_not_strict() -> None:
    training = Training()
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(training.update.optimizer)
    plan = SchedulerPlan(scheduler, False, 1, "validation/f1", written="val_f1")

    def update(plan: SchedulerPlan) -> OptimizerStep:
        own, group = training.update, SingleProcess()
        parallel, spec = own._parallel, own._spec
        return OptimizerStep(own.optimizer, parallel, group, Precision("fp32", "cpu"), spec, [plan])

    for call in (update(plan).check_metrics, lambda metrics: update(plan).end_epoch(1, metrics)):
        with pytest.raises(
            TrainingFailed, match=sentence("follows-a-metric-that-is-missing").pattern
        ):
            call({"validation/loss": 1.0})
    update(plan).check_metrics({"validation/f1": 1.0})
    lenient = update(plan._replace(is_strict=False))
    lenient.check_metrics({})
    lenient.end_epoch(1, {})
    assert scheduler.last_epoch == 0
    lenient.end_epoch(1, {"validation/f1": 1.0})
    assert scheduler.last_epoch == 1


def test_groups_keep_their_ratio_under_a_schedule() -> None:
    weights = [nn.Parameter(torch.ones(())) for _ in range(2)]
    optimizer = torch.optim.SGD(
        [{"params": weights[:1], "lr": 0.2}, {"params": weights[1:], "lr": 0.1}]
    )
    training = Training(schedule="one_cycle")
    spec = training.update._spec
    parallel = training.update._parallel
    update = OptimizerStep(optimizer, parallel, SingleProcess(), Precision("fp32", "cpu"), spec)
    for step in range(TOTAL):
        update.apply(step, TOTAL, torch.tensor(1.0))
        first, second = (group["lr"] for group in optimizer.param_groups)
        assert first == pytest.approx(2 * second)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sgd", torch.optim.SGD),
        ("rmsprop", torch.optim.RMSprop),
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
    ],
)
def test_the_optimizer_of_the_spec(name: str, kind: type) -> None:
    training = Training(optimizer=name, weight_decay=0.25, momentum=0.5)
    [group] = training.update.optimizer.param_groups
    assert type(training.update.optimizer) is kind
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.25)
    assert group.get("momentum", 0.5) == 0.5


def test_the_recipes_optimizer_is_nobody_elses() -> None:
    spec = RunSpec(recipe="r", strategy="torch/single", devices=("cpu:0",))
    assert chosen_optimizer(spec, []) is None


@pytest.mark.parametrize(
    ("loss", "gradient", "precision"),
    [
        (math.nan, 2.0, "fp32"),
        (math.inf, 2.0, "fp32"),
        (1.0, math.nan, "fp32"),
        (1.0, -math.inf, "fp32"),
        (math.nan, math.nan, "fp16"),
        (1.0, math.inf, "fp16"),
    ],
)
def test_a_step_that_is_not_finite_can_be_left_out(
    loss: float, gradient: float, precision: str
) -> None:
    training = Training(on_nan="skip", precision=precision, weight_decay=0.5, clip_norm=9.0)
    figures = training.step(gradient, loss=loss)
    assert training.weight == 1.0, "no weight decay either"
    of_fp16 = {"skipped_updates"} if precision == "fp16" else set()
    assert set(figures) == {"learning_rate", "gradient_norm"} | of_fp16
    assert set(training.step(0.0)) == set(figures), "each curve has a value of each step"
    assert training.weight == pytest.approx(0.95), "and the next one counts"


def test_an_update_that_fp16_leaves_out_is_told() -> None:
    training = Training(precision="fp16")
    assert float(training.step(math.inf)["skipped_updates"]) == 1.0
    assert training.weight == 1.0
    assert float(training.step(0.0)["skipped_updates"]) == 0.0
    assert "skipped_updates" not in Training().step(1.0)
    skipping = Training(precision="fp16", on_nan="skip")
    assert float(skipping.step(math.nan)["skipped_updates"]) == 1.0, "each step has a value"


def test_a_finite_step_is_never_left_out() -> None:
    training = Training(on_nan="skip")
    training.step(2.0)
    assert training.weight == pytest.approx(0.8)


def test_what_a_batch_left_out_did_to_running_statistics_is_undone() -> None:
    training = Training(on_nan="skip")
    training.model.register_buffer("mean", torch.zeros(2))
    for value, loss, left in ((1.0, 1.0, 1.0), (math.nan, math.nan, 1.0), (3.0, 1.0, 3.0)):
        training.update.begin()
        training.model.mean.fill_(value)
        training.model.weight.grad = torch.ones(1, 1)
        training.update.apply(0, TOTAL, torch.tensor(loss))
        assert training.model.mean.tolist() == [left, left]


@pytest.mark.parametrize("changes", [{"clip_norm": 0.5}, {"gradient_norm": True}])
def test_sparse_gradients_have_the_norm_of_dense_ones_and_are_clipped_alike(
    changes: dict[str, Any],
) -> None:
    def trained(*, sparse: bool) -> tuple[list[float], torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(5, 3, sparse=sparse), nn.Linear(3, 1))
        options: dict[str, Any] = {"learning_rate": 0.1, "optimizer": "sgd"} | changes
        spec = RunSpec(recipe="r", strategy="torch/single", devices=("cpu:0",), **options)
        rank = Rank(0, 1, (torch.device("cpu"),), SingleProcess(), spec)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        update = OptimizerStep(
            optimizer, WholeModel(model, rank), SingleProcess(), Precision("fp32", "cpu"), spec
        )
        norms = []
        for step in range(3):
            update.begin()
            loss = model(torch.tensor([1, 1, 4])).square().sum() * 9
            loss.backward()
            norms.append(float(update.apply(step, TOTAL, loss.detach())["gradient_norm"]))
        return norms, torch.cat([each.detach().flatten() for each in model.parameters()])

    norms, weights = trained(sparse=True)
    expected, of_dense = trained(sparse=False)
    assert norms == pytest.approx(expected)
    assert torch.allclose(weights, of_dense)
