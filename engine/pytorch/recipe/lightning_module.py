"""A LightningModule in a recipe: its own training step, validation step and optimizers train.

Lightning is never imported here: its classes are known by their names. What a module can ask of
the `Trainer` of Lightning, and what cannot be had here, is refused by name.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from engine.pytorch.recipe.optimizer_plan import OptimizerPlan, SchedulerPlan, one_plan
from engine.pytorch.recipe.torch_recipe import (
    PlannedRun,
    TorchRecipe,
    TrainedModel,
    Turn,
    Value,
    Values,
)
from engine.training.errors import TrainingFailed

_PACKAGES = ("lightning.", "pytorch_lightning.")

_REFUSED: Mapping[str, str] = {
    "backward": "the gradients come from the strategy",
    "configure_callbacks": "choose checkpoints in the form, and end early by on_epoch()",
    "configure_gradient_clipping": "choose the greatest norm of the gradients in the form",
    "configure_sharded_model": "the strategy shards the model",
    "lr_scheduler_step": "a scheduler steps per step or per epoch",
    "on_after_backward": "it would run before the gradients are exchanged",
    "on_before_backward": "the gradients come from the strategy",
    "on_before_batch_transfer": "change the samples in the data set or in collate(samples)",
    "on_before_optimizer_step": "the update comes from the strategy",
    "on_before_zero_grad": "the gradients come from the strategy",
    "on_fit_end": "do this after the run",
    "on_load_checkpoint": "checkpoints hold the weights, the optimizers and the random state",
    "on_save_checkpoint": "checkpoints hold the weights, the optimizers and the random state",
    "on_train_batch_end": "several steps are computed before their values are read",
    "on_train_end": "do this after the run",
    "on_validation_model_eval": "the model is in evaluation mode while it is validated",
    "on_validation_model_train": "the model is in evaluation mode while it is validated",
    "optimizer_step": "the update comes from the strategy",
    "optimizer_zero_grad": "the gradients come from the strategy",
    "teardown": "do this after the run",
    "transfer_batch_to_device": "tensors in any nesting are copied to the device",
}
"""Methods of Lightning that a module may override there, each with the reason or the other way."""

_OF_LOGGERS = {
    *("experiment", "log_metrics", "log_hyperparams", "log_graph", "log_dir", "save_dir"),
    *("log_image", "log_table", "log_text", "watch"),
}
"""What modules ask of the loggers of Lightning."""

_VALIDATION = ("validation_", "validation/", "valid_", "valid/", "val_", "val/")
_TRAINING = ("training_", "training/", "train_", "train/")


def is_lightning_module(model: Any) -> bool:
    """Return whether `model` is a LightningModule of any of its packages."""
    return _base(type(model)) is not None


def adapted(recipe: TorchRecipe, module: Any) -> TorchRecipe:
    """Return `recipe` with the training and validation step and the optimizers of `module`.

    What the recipe defines itself beside them is used: `weight`, `ema`, `on_epoch`, and
    `optimizer`. Raises TrainingFailed, by name, for what cannot be honoured.
    """
    _refuse(recipe, module)
    training = _Training(module)
    has_validation = _overrides(module, "validation_step")
    return replace(
        recipe,
        takes_pairs=False,
        step=training.step,
        validate=training.validate if has_validation else None,
        after_validation=training.after_validation if has_validation else None,
        make_optimizers=(
            recipe.make_optimizers if recipe.has_own_optimizer else training.make_optimizers
        ),
        has_own_optimizer=True,
        on_epoch=partial(training.end_epoch, recipe.on_epoch),
        after_epoch=training.after_epoch,
    )


class _Training:
    """The calls of a module's methods in the order in which Lightning makes them."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._trainer = _TrainerFacts(module)
        self._log = _Log(module)
        self._has_begun = False
        self._epoch = -1
        self._is_validating = False
        self._batch = 0
        self._names: tuple[str, ...] = ()
        self._ended: Values = {}
        module.trainer = self._trainer
        module.log = self._log.add
        if self._trainer.is_global_zero:
            module.prepare_data()
        if self._trainer.world_size > 1:
            torch.distributed.barrier()
        module.setup("fit")
        for method in ("configure_model", "on_fit_start"):
            getattr(module, method)()

    def make_optimizers(
        self, trained: TrainedModel, facts: PlannedRun
    ) -> Mapping[str, OptimizerPlan]:
        """Return the optimizer of `configure_optimizers` with its schedulers."""
        self._trainer.learn(facts)
        result = self._module.configure_optimizers()
        if result is None:
            raise TrainingFailed(
                f"configure_optimizers() of {_name(self._module)} gave no optimizer: return one."
            )
        plan = one_plan(_unpacked(result), "configure_optimizers()", trained.as_torch_optimizer)
        schedulers = tuple(_as_lightning_steps(each) for each in plan.schedulers)
        return {"": OptimizerPlan(plan.optimizer, schedulers)}

    def step(self, module: Any, batch: Any, turn: Turn) -> Values:
        """Return the loss of `training_step`, and what it logs."""
        self._trainer.at(turn)
        self._begin_training(turn)
        batch = module.on_after_batch_transfer(batch, 0)
        if module.on_train_batch_start(batch, turn.batch) == -1:
            raise TrainingFailed(
                f"on_train_batch_start() of {_name(module)} ends the epoch early: this cannot be "
                "had, because the data of all ranks is planned before."
            )
        self._log.begin(_TRAINING, is_of_batch=True)
        result = _called(module.training_step, batch, turn.batch)
        logged = self._log.taken()
        if result is None:
            raise TrainingFailed(
                f"training_step() of {_name(module)} gave nothing for a batch: a step without a "
                "loss cannot be had. Return the loss."
            )
        logged["loss"] = result["loss"] if isinstance(result, Mapping) else result
        if not self._names:
            self._names = tuple(logged)
        nothing: Values = dict.fromkeys(self._names, math.nan)
        return nothing | logged  # what is logged in some steps only is no number in the others

    def validate(self, module: Any, batch: Any) -> Values:
        """Return what `validation_step` logs, and its loss if it returns one."""
        if not self._is_validating:
            self._is_validating = True
            self._batch = 0
            for method in ("on_validation_start", "on_validation_epoch_start"):
                getattr(module, method)()
        batch = module.on_after_batch_transfer(batch, 0)
        module.on_validation_batch_start(batch, self._batch, 0)
        self._log.begin(_VALIDATION, is_of_batch=True)
        result = _called(module.validation_step, batch, self._batch)
        logged = self._log.taken()
        module.on_validation_batch_end(result, batch, self._batch, 0)
        self._batch += 1
        loss = result.get("loss") if isinstance(result, Mapping) else result
        if isinstance(loss, torch.Tensor):
            logged.setdefault("loss", loss.detach())
        return logged

    def after_validation(self, module: Any) -> Values:
        """Return what the hooks at the end of a validation log, and the metrics that it logged."""
        self._is_validating = False
        self._log.begin(_VALIDATION)
        for method in ("on_validation_epoch_end", "on_validation_end"):
            getattr(module, method)()
        return {**self._log.computed(), **self._log.taken()}

    def end_epoch(
        self,
        then: Callable[[Any, int, Mapping[str, float]], Any] | None,
        module: Any,
        epoch: int,
        metrics: Mapping[str, float],
    ) -> Any:
        """Call the hook of the epoch's end, and the recipe's own `on_epoch`."""
        self._trainer.callback_metrics = dict(metrics)
        self._log.begin(_TRAINING)
        of_epoch = self._log.of_epoch()
        self._module.on_train_epoch_end()
        self._ended = {**of_epoch, **self._log.computed(), **self._log.taken()}
        self._log.end_epoch()
        return then(module, epoch, metrics) if then else self._trainer.should_stop

    def after_epoch(self) -> Values:
        """Return what the hook of the epoch's end has logged."""
        ended, self._ended = self._ended, {}
        # The curve of a name that each step logs is that of the steps.
        return {f"{name}_epoch" if name in self._names else name: v for name, v in ended.items()}

    def _begin_training(self, turn: Turn) -> None:
        self._is_validating = False
        if not self._has_begun:
            self._has_begun = True
            self._module.on_train_start()
        if turn.epoch != self._epoch:
            self._epoch = turn.epoch
            self._module.on_train_epoch_start()


class _Log:
    """What a module logs: `self.log(name, value)`."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._prefixes: tuple[str, ...] = ()
        self._is_of_batch = False
        self._values: dict[str, Value] = {}
        self._metrics: dict[str, Any] = {}
        self._of_steps: dict[str, tuple[Any, bool]] = {}
        """Metrics that training steps have logged since the epoch began, and whether with
        `on_epoch`."""

    def begin(self, prefixes: tuple[str, ...], *, is_of_batch: bool = False) -> None:
        """Forget what was logged; a name loses one of `prefixes`, which its curve says already.

        `is_of_batch`: whether the values to come are those of one batch among many.
        """
        self._prefixes = prefixes
        self._is_of_batch = is_of_batch
        self._values = {}

    def add(
        self,
        name: str,
        value: Any,
        prog_bar: bool = False,
        logger: bool | None = None,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        reduce_fx: Any = "mean",
        *_: Any,
        **options: Any,
    ) -> None:
        """Do what `log` of a LightningModule does, whose arguments these are."""
        self._check_reduction(name, value, reduce_fx)
        name = _bare(name, self._prefixes)
        if hasattr(value, "compute") and hasattr(value, "reset"):
            if self._prefixes is _VALIDATION or not self._is_of_batch:
                self._metrics[name] = value
                return
            self._of_steps[name] = value, bool(on_epoch)
            value = getattr(value, "_forward_cache", None)
        if isinstance(value, torch.Tensor):
            value = value.detach()
            if value.numel() != 1:
                raise TrainingFailed(
                    f"{_name(self._module)} logs {name!r} with {value.numel()} values: log one "
                    "number."
                )
            value = value.reshape(())
        if value is not None:
            self._values[name] = value if isinstance(value, torch.Tensor) else float(value)

    def _check_reduction(self, name: str, value: Any, reduction: Any) -> None:
        """Raise TrainingFailed for what is no mean over batches; a metric knows its own way."""
        if reduction in ("mean", torch.mean) or hasattr(value, "compute") or not self._is_of_batch:
            return
        given = getattr(reduction, "__name__", str(reduction))
        raise TrainingFailed(
            f"{_name(self._module)} logs {name!r} with reduce_fx={given!r}: the values of batches "
            "are averaged, also over the ranks. Log a mean, or a metric object (torchmetrics), or "
            "log the result in on_validation_epoch_end()."
        )

    def taken(self) -> Values:
        """Return the values that were logged since `begin`."""
        values, self._values = self._values, {}
        return values

    def computed(self) -> Values:
        """Return the metrics over all batches of the pass, and reset them. All ranks call this."""
        metrics, self._metrics = self._metrics, {}
        values: Values = {}
        for name, metric in metrics.items():
            values[name] = float(metric.compute())
            metric.reset()
        return values

    def of_epoch(self) -> Values:
        """Return the metrics of the training steps over the epoch, where the module wants them.
        All ranks call this."""
        return {
            name: float(metric.compute())
            for name, (metric, is_wanted) in self._of_steps.items()
            if is_wanted
        }

    def end_epoch(self) -> None:
        """Let the metrics of the training steps begin anew, as Lightning does."""
        for metric, _ in self._of_steps.values():
            metric.reset()
        self._of_steps.clear()


class _TrainerFacts:
    """What a module reads from `self.trainer`; everything else is refused by name."""

    def __init__(self, module: Any) -> None:
        self._module_name = _name(module)
        is_parallel = torch.distributed.is_initialized()
        self.current_epoch = self.global_step = 0
        self.global_rank = torch.distributed.get_rank() if is_parallel else 0
        self.local_rank = self.global_rank
        self.world_size = torch.distributed.get_world_size() if is_parallel else 1
        self.is_global_zero = self.global_rank == 0
        self.max_epochs = self.max_steps = -1
        self.num_training_batches = self.estimated_stepping_batches = 0
        self.callback_metrics: dict[str, float] = {}
        self.should_stop = False
        self.sanity_checking = self.barebones = False
        self.logger = None
        self.loggers: list[Any] = []

    def learn(self, facts: PlannedRun) -> None:
        """Take over the lengths of the run."""
        self.num_training_batches = facts.steps_per_epoch
        self.max_steps = self.estimated_stepping_batches = facts.total_steps
        if facts.steps_per_epoch:
            self.max_epochs = -(-facts.total_steps // facts.steps_per_epoch)

    def at(self, turn: Turn) -> None:
        """Take over where the training is."""
        self.current_epoch, self.global_step = turn.epoch, turn.step

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self._module_name} reads self.trainer.{name}: in a recipe there is no Trainer of "
            "Lightning. Leave it out, or run your script as it is with `traindeck run`."
        )


def _refuse(recipe: TorchRecipe, module: Any) -> None:
    name = _name(module)
    for function in ("step", "validate"):
        if getattr(recipe, function) is not None:
            raise TrainingFailed(
                f"The recipe has {function}(), and its model is the LightningModule {name}, which "
                "has its own: keep one of them."
            )
    if recipe.has_own_loss:
        raise TrainingFailed(
            f"The recipe has loss(), and its model is the LightningModule {name}, whose "
            "training_step() computes the loss: keep one of them."
        )
    if not module.automatic_optimization:
        raise TrainingFailed(
            f"{name} sets automatic_optimization to False: its training_step() does the updates "
            "itself, which no strategy can follow. Write optimizers() and step(model, batch, "
            "optimizer), or run your script as it is with `traindeck run`."
        )
    if not _overrides(module, "training_step"):
        raise TrainingFailed(f"{name} has no training_step(): define it.")
    for method, reason in _REFUSED.items():
        if _overrides(module, method):
            raise TrainingFailed(
                f"{name} overrides {method}(), which is not called in a recipe: {reason}. Leave "
                "it out, or run your script as it is with `traindeck run`."
            )


def _base(kind: type) -> type | None:
    for each in kind.__mro__:
        if each.__name__ == "LightningModule" and each.__module__.startswith(_PACKAGES):
            return each
    return None


def _overrides(module: Any, method: str) -> bool:
    base = _base(type(module))
    return getattr(type(module), method, None) is not getattr(base, method, None)


def _called(method: Callable[..., Any], batch: Any, number: int) -> Any:
    """Call a step of a module, with the arguments that it wants."""
    parameters = inspect.signature(method).parameters
    if "dataloader_iter" in parameters:
        raise TrainingFailed(
            f"{method.__name__}() takes dataloader_iter: take batch instead, because the batches "
            "are divided among the ranks."
        )
    try:
        if "batch_idx" in parameters:
            return method(batch, batch_idx=number)
        return method(batch, number) if len(parameters) > 1 else method(batch)
    except AttributeError as error:
        if error.obj is not None or error.name not in _OF_LOGGERS:
            raise
        raise TrainingFailed(
            f"{method.__name__}() reads self.logger.{error.name}: in a recipe there is no logger "
            "of Lightning, so self.logger is None. Use self.log(), or run your script as it is "
            "with `traindeck run`."
        ) from error


def _unpacked(result: Any) -> Any:
    """Return the only entry of a list or tuple of one optimizer."""
    if isinstance(result, list | tuple) and len(result) == 1:
        return result[0]
    return result


def _as_lightning_steps(plan: SchedulerPlan) -> SchedulerPlan:
    """Return `plan` with what Lightning assumes: every scheduler steps once per epoch."""
    monitor = plan.monitor
    if monitor.startswith(_TRAINING):
        monitor = "train/" + _bare(monitor, _TRAINING)
    elif monitor and not monitor.startswith("validation/"):
        monitor = "validation/" + _bare(monitor, _VALIDATION)
    per_step = plan.per_step and not plan.is_assumed
    return plan._replace(monitor=monitor, written=plan.monitor, per_step=per_step, is_assumed=False)


def _bare(name: str, prefixes: tuple[str, ...]) -> str:
    for prefix in prefixes:
        if name.startswith(prefix) and name != prefix:
            return name.removeprefix(prefix)
    return name


def _name(module: Any) -> str:
    return type(module).__name__
