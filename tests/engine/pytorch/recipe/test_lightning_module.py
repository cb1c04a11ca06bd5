"""LightningModules, used as such: what is called, what is logged, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from engine.pytorch.recipe import libraries
from engine.pytorch.recipe.torch_recipe import PlannedRun, TorchRecipe, TrainedModel, Turn
from engine.training.errors import TrainingFailed
from tests.engine.pytorch.recipe.empty_recipe import empty_recipe
from tests.engine.pytorch.recipe.library_doubles import LightningModule
from tests.support.sentences import sentence

FACTS = PlannedRun(learning_rate=0.5, total_steps=20, steps_per_epoch=10)


class Lit(LightningModule):
    """It notes which hooks are called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.calls: list[str] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.calls.append(f"training_step {batch_idx}")
        loss = self.layer(batch).mean()
        self.log("train_loss", loss, prog_bar=True)
        self.log("train/size", len(batch))
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.calls.append(f"validation_step {batch_idx}")
        self.log("val_loss", self.layer(batch).mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.25)

    def on_train_start(self) -> None:
        self.calls.append("on_train_start")

    def on_train_epoch_start(self) -> None:
        self.calls.append("on_train_epoch_start")

    def on_train_epoch_end(self) -> None:
        self.calls.append("on_train_epoch_end")

    def on_validation_epoch_end(self) -> None:
        self.calls.append("on_validation_epoch_end")
        self.log("val_best", 3)


def adapted(module: Any, **functions: Any) -> TorchRecipe:
    return libraries.adapted(empty_recipe(**functions), module)


def trained(module: nn.Module) -> TrainedModel:
    parameters = list(module.parameters())
    return TrainedModel(module, parameters, list(module.named_parameters()), lambda each: each)


def test_the_module_computes_the_step() -> None:
    module = Lit()
    recipe = adapted(module)
    assert recipe.step is not None
    batch = torch.ones(3, 2)
    values = recipe.step(module, batch, Turn(batch=4, step=14, epoch=1))
    assert values["loss"] == module.layer(batch).mean()
    assert values["loss"].requires_grad
    assert values["size"] == 3
    assert module.calls == ["on_train_start", "on_train_epoch_start", "training_step 4"]
    assert (module.trainer.current_epoch, module.trainer.global_step) == (1, 14)


def test_a_module_is_set_up_before_it_trains() -> None:
    class SetUp(Lit):
        def prepare_data(self) -> None:
            self.calls.append("prepare_data")

        def setup(self, stage: str) -> None:
            self.calls.append(f"setup {stage}")

        def configure_model(self) -> None:
            self.calls.append("configure_model")

    module = SetUp()
    adapted(module)
    assert module.calls == ["prepare_data", "setup fit", "configure_model"]


def test_a_logger_that_there_is_not_is_named() -> None:
    class Logs(Lit):
        logger: Any = None

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.logger.experiment.add_scalar("a", 1.0)

    module = Logs()
    recipe = adapted(module)
    assert recipe.step is not None
    with pytest.raises(TrainingFailed, match=sentence("reads-in-recipe-there").pattern):
        recipe.step(module, torch.ones(1, 2), Turn())


def test_validation_is_what_the_module_logs() -> None:
    module = Lit()
    recipe = adapted(module)
    assert recipe.validate is not None
    assert recipe.after_validation is not None
    batch = torch.ones(3, 2)
    for number in range(2):
        assert recipe.validate(module, batch) == {"loss": module.layer(batch).mean()}, number
    assert recipe.after_validation(module) == {"best": 3}
    assert module.calls == ["validation_step 0", "validation_step 1", "on_validation_epoch_end"]


def test_hooks_are_called_once_per_epoch() -> None:
    module = Lit()
    recipe = adapted(module)
    assert recipe.step is not None
    assert recipe.on_epoch is not None
    for epoch in range(2):
        for batch in range(2):
            recipe.step(module, torch.ones(1, 2), Turn(epoch=epoch, batch=batch))
        assert not recipe.on_epoch(module, epoch + 1, {"validation/loss": 1.0})
    assert module.calls.count("on_train_start") == 1
    assert module.calls.count("on_train_epoch_start") == 2
    assert module.calls.count("on_train_epoch_end") == 2


def test_the_optimizer_is_the_modules() -> None:
    module = Lit()
    plan = adapted(module).make_optimizers(trained(module), FACTS)[""]
    assert isinstance(plan.optimizer, torch.optim.SGD)
    assert plan.optimizer.param_groups[0]["lr"] == 0.25


def test_a_scheduler_steps_once_per_epoch_unless_it_says_otherwise() -> None:
    class Scheduled(Lit):
        interval: dict[str, str] = {}

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), 0.25)
            steps = self.trainer.estimated_stepping_batches
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=steps)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": scheduler} | self.interval,
            }

    class PerStep(Scheduled):
        interval = {"interval": "step"}

    for kind, per_step in ((Scheduled, False), (PerStep, True)):
        module = kind()
        plan = adapted(module).make_optimizers(trained(module), FACTS)[""]
        assert plan.schedulers[0].per_step is per_step


@pytest.mark.parametrize(
    ("written", "ours"), [("val_loss", "validation/loss"), ("train_loss", "train/loss")]
)
def test_a_scheduler_follows_the_metric_by_its_name_in_the_module(written: str, ours: str) -> None:
    class Plateau(Lit):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), 0.25)
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return [optimizer], [{"scheduler": scheduler, "monitor": written}]

    module = Plateau()
    plan = adapted(module).make_optimizers(trained(module), FACTS)[""]
    assert (plan.schedulers[0].monitor, plan.schedulers[0].written) == (ours, written)


class ManualOptimization(Lit):
    automatic_optimization = False


class OwnOptimizerStep(Lit):
    def optimizer_step(self, *arguments: Any) -> None: ...


class OwnCheckpoint(Lit):
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ManualOptimization, sentence("sets-to-false").pattern),
        (OwnOptimizerStep, r"overrides optimizer_step\(\)"),
        (OwnCheckpoint, r"overrides on_save_checkpoint\(\)"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(kind: type, said: str) -> None:
    with pytest.raises(TrainingFailed, match=said):
        adapted(kind())


def test_a_loss_of_the_recipe_contradicts_the_module() -> None:
    with pytest.raises(TrainingFailed, match=r"The recipe has loss\(\)"):
        adapted(Lit(), has_own_loss=True)


def test_a_step_without_a_loss_is_refused() -> None:
    class Skips(Lit):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return None

    module = Skips()
    recipe = adapted(module)
    assert recipe.step is not None
    with pytest.raises(TrainingFailed, match=sentence("of-skips-gave-nothing").pattern):
        recipe.step(module, torch.ones(1, 2), Turn())


def test_what_there_is_only_in_a_trainer_is_refused_by_name() -> None:
    module = Lit()
    adapted(module)
    with pytest.raises(AttributeError, match=r"Lit reads self\.trainer\.datamodule"):
        _ = module.trainer.datamodule


def test_a_sum_over_batches_is_refused_by_name_and_no_mean() -> None:
    class Sums(Lit):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_count", len(batch), reduce_fx="sum")

        def on_validation_epoch_end(self) -> None:
            self.log("val_all", 7, reduce_fx="sum")  # one value is its own sum

    module = Sums()
    recipe = adapted(module)
    assert recipe.validate is not None
    assert recipe.after_validation is not None
    with pytest.raises(TrainingFailed, match=sentence("sums-logs-with-sum").pattern):
        recipe.validate(module, torch.ones(3, 2))
    assert recipe.after_validation(module) == {"all": 7}


def test_what_the_end_of_an_epoch_logs_is_a_curve() -> None:
    class Ends(Lit):
        def on_train_epoch_end(self) -> None:
            self.log("train_best", 5)
            self.log("train_size", 6)

    module = Ends()
    recipe = adapted(module)
    assert recipe.step is not None
    assert recipe.on_epoch is not None
    assert recipe.after_epoch is not None
    recipe.step(module, torch.ones(1, 2), Turn())
    recipe.on_epoch(module, 1, {})
    assert recipe.after_epoch() == {"best": 5, "size_epoch": 6}


def test_a_value_that_is_logged_only_sometimes_is_not_a_number_in_the_other_steps() -> None:
    class Sometimes(Lit):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx != 1:
                self.log("sometimes", 1.0)
            return self.layer(batch).mean()

    module = Sometimes()
    recipe = adapted(module)
    assert recipe.step is not None
    steps = [recipe.step(module, torch.ones(1, 2), Turn(batch=n)) for n in range(2)]
    assert list(steps[0]) == list(steps[1])
    assert torch.tensor(float(steps[1]["sometimes"])).isnan()


def test_a_metric_object_is_computed_over_the_whole_validation() -> None:
    class Count:
        total = 0

        def update(self, batch: torch.Tensor) -> None:
            self.total += len(batch)

        def compute(self) -> torch.Tensor:
            return torch.tensor(self.total)

        def reset(self) -> None:
            self.total = 0

    class Counts(Lit):
        def __init__(self) -> None:
            super().__init__()
            self.count = Count()

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.count.update(batch)
            self.log("val_count", self.count)

    module = Counts()
    recipe = adapted(module)
    assert recipe.validate is not None
    assert recipe.after_validation is not None
    for size in (3, 4):
        assert recipe.validate(module, torch.ones(size, 2)) == {}
    assert recipe.after_validation(module) == {"best": 3, "count": 7.0}
    assert module.count.total == 0


def test_a_metric_of_training_steps_is_of_one_epoch() -> None:
    class Count:
        total = 0

        def __call__(self, batch: torch.Tensor) -> None:
            self.total += len(batch)
            self._forward_cache = torch.tensor(len(batch))

        def compute(self) -> torch.Tensor:
            return torch.tensor(self.total)

        def reset(self) -> None:
            self.total = 0

    class Counts(Lit):
        def __init__(self) -> None:
            super().__init__()
            self.count = Count()
            self.unseen = Count()

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            for count in (self.count, self.unseen):
                count(batch)
            self.log("train_count", self.count, on_step=False, on_epoch=True)
            self.log("train_unseen", self.unseen)
            return super().training_step(batch, batch_idx)

    module = Counts()
    recipe = adapted(module)
    assert recipe.step is not None
    assert recipe.on_epoch is not None
    assert recipe.after_epoch is not None
    for epoch in range(2):
        steps = [
            recipe.step(module, torch.ones(size, 2), Turn(epoch=epoch, batch=number))
            for number, size in enumerate((3, 4))
        ]
        assert [float(step["count"]) for step in steps] == [3, 4]
        recipe.on_epoch(module, epoch + 1, {})
        ended = recipe.after_epoch()
        assert ended["count_epoch"] == 7
        assert "unseen_epoch" not in ended
        assert module.count.total == module.unseen.total == 0
