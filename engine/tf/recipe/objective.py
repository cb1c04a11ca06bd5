"""What a training minimises and shows, from the recipe's functions `loss`, `metrics` and `step`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.tf.samples.data import Batch
from engine.tf.samples.local_batch import Share, in_float32
from engine.training.errors import TrainingFailed

LOSS = "loss"

Figures = dict[str, tf.Tensor]
"""Values of a batch by name: float32 scalars, means over its samples."""

STEP, VALIDATE = "step(model, batch)", "validate(model, batch)"


class Loss(NamedTuple):
    """The result of a local batch in training."""

    figures: Figures
    """The loss, without regularisation, and what else the curves show."""

    penalties: tf.Tensor | None
    """The regularisation of the model, which is minimised too: a float32 scalar."""

    weight: tf.Tensor | None
    """The weight of this batch among all local batches: a float32 scalar. None: its samples."""


class Objective:
    """The recipe's `loss` and `metrics`; subclasses take them from elsewhere.

    The methods are called in a graph, for one replica.
    """

    uses_outputs = True
    """Whether the loss depends on the model through its outputs only, wherever these come from."""

    shows_penalties = False
    """Whether the loss that is shown includes the regularisation, as that of Keras' `fit` does."""

    updates_weights = False
    """Whether `update` does the whole step of a batch, with gradients and update."""

    validates_to_last = False
    """Whether the figures of the last batch are those of all, and not their mean."""

    shows_rate = True
    """Whether the learning rate of the run's optimizer is that of the training."""

    more_variables: Sequence[tf.Variable] = ()
    """What training changes besides the variables of model and optimizer; known after `build`."""

    metric_objects: tuple[keras.metrics.Metric, ...] = ()
    """Metrics with a state, which `update_metrics` changes."""

    def __init__(
        self,
        loss: Callable[..., Any] | None,
        metrics: Callable[..., Any],
        *,
        weight: Callable[..., Any] | None = None,
        validate: Callable[..., Any] | None = None,
    ) -> None:
        """Each is a function of the recipe; without `weight`, a batch weighs as its samples."""
        self._loss = loss
        self._metrics = metrics
        self._weight = weight
        self._validate = validate
        self.sample_loss: Callable[..., Any] | None = None
        """The loss of each sample: of outputs and targets, or, where the model is called
        elsewhere, of model and batch."""

        self.names = [LOSS]
        """The names of the figures of a batch in training; known after `build`."""

    @property
    def is_weighted(self) -> bool:
        """Whether local batches weigh differently than their numbers of samples."""
        return self._weight is not None

    @property
    def weighs_by_batch(self) -> bool:
        """Whether the weight of a batch is known before the model has computed it."""
        return self._weight is not None

    def build(self, model: keras.Model, batch: Batch, parts: int) -> None:
        """Make the variables that depend on a batch; `batch` has some samples.

        Called once, inside the scope of TensorFlow's strategy. `parts` is the number of local
        batches of a global batch. Raises TrainingFailed if the loss cannot be computed in parts.
        """

    def update(self, batch: Batch) -> Figures:
        """Do the step of a batch; called instead of `training_loss` if `updates_weights`."""
        raise NotImplementedError

    def training_loss(self, model: keras.Model, batch: Batch, share: Share) -> Loss:
        """Return the result of a local batch in training mode, and count it in the metrics."""
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = model(inputs, training=True)
        return self.loss_of(batch, outputs, share, penalties_of(model))

    def loss_of(
        self, batch: Batch, outputs: Any, share: Share, penalties: tf.Tensor | None
    ) -> Loss:
        """Return the result for the model's `outputs` and its regularisation, and count it."""
        figures = self.output_figures(batch, outputs, share, training=True)
        self.count(batch, outputs, share)
        return Loss(figures, penalties, self.weight_of(batch, outputs))

    def validation_figures(
        self, model: keras.Model, batch: Batch, share: Share
    ) -> tuple[Figures, tf.Tensor | None]:
        """Return loss and metrics of a batch in validation, and its weight as in `Loss`."""
        if self._validate is not None:
            return as_figures(self._validate(model, batch), VALIDATE), self.weight_of(batch, None)
        inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = model(inputs, training=False)
        figures = self.output_figures(batch, outputs, share, training=False)
        if self.shows_penalties and (penalties := penalties_of(model)) is not None:
            figures[LOSS] += penalties
        self.count(batch, outputs, share)
        metrics = self._metrics(in_float32(outputs), targets)
        return figures | metrics, self.weight_of(batch, outputs)

    def output_figures(
        self, batch: Batch, outputs: Any, share: Share, *, training: bool
    ) -> Figures:
        """Return the loss and its parts for the model's `outputs`, without regularisation."""
        _, targets, weight = keras.utils.unpack_x_y_sample_weight(batch)
        if targets is None:
            raise TrainingFailed(
                "datasets() gives no targets, which loss(outputs, targets) needs: give "
                f"(inputs, targets), or define {STEP} in the recipe."
            )
        assert self._loss is not None
        loss = self._loss(in_float32(outputs), targets)
        if weight is not None:
            loss = _weighted(loss, weight)
        return {LOSS: scalar(loss)}

    def weight_of(self, batch: Batch, outputs: Any) -> tf.Tensor | None:
        """Return the weight of a batch for its mean; None: its number of samples."""
        return None if self._weight is None else scalar(self._weight(batch))

    def count(self, batch: Batch, outputs: Any, share: Share) -> None:
        """Count a batch in the metrics that have a state."""
        if not self.metric_objects:
            return
        if not share.may_be_empty:
            self.update_metrics(batch, outputs)
            return

        def update() -> tf.Tensor:
            self.update_metrics(batch, outputs)
            return tf.constant(0)

        tf.cond(share.count > 0, update, lambda: tf.constant(0))

    def update_metrics(self, batch: Batch, outputs: Any) -> None:
        """Change the state of the metrics."""

    def metric_state(self) -> list[npt.NDArray[Any]]:
        """Return what was counted, over all replicas; all ranks must call it together."""
        return [np.asarray(v) for metric in self.metric_objects for v in metric.variables]

    def load_metric_state(self, values: Sequence[npt.NDArray[Any]]) -> None:
        """Set what `metric_state` returned, as far as these metrics have it."""
        variables = [v for metric in self.metric_objects for v in metric.variables]
        if [v.shape for v in variables] == [value.shape for value in values]:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    def metric_results(self) -> Figures:
        """Return the values of the metrics that have a state, over all replicas."""
        return {}

    def reset_metrics(self) -> None:
        """Forget what was counted; called outside of `Strategy.run`."""


class StepObjective(Objective):
    """The recipe's `step(model, batch)`, and its `validate(model, batch)` if it has one."""

    uses_outputs = False

    def __init__(
        self,
        step: Callable[..., Any],
        *,
        weight: Callable[..., Any] | None,
        validate: Callable[..., Any] | None,
    ) -> None:
        super().__init__(None, lambda outputs, targets: {}, weight=weight, validate=validate)
        self._step = step

    def build(self, model: keras.Model, batch: Batch, parts: int) -> None:
        # Tracing computes nothing: no random number is drawn, and no variable changes.
        traced = tf.function(lambda: self._figures(model, batch), autograph=False)
        found = traced.get_concrete_function().structured_outputs
        self.names = [LOSS, *(name for name in found if name != LOSS)]

    def training_loss(self, model: keras.Model, batch: Batch, share: Share) -> Loss:
        return Loss(self._figures(model, batch), None, self.weight_of(batch, None))

    def validation_figures(
        self, model: keras.Model, batch: Batch, share: Share
    ) -> tuple[Figures, tf.Tensor | None]:
        if self._validate is not None:
            return super().validation_figures(model, batch, share)
        return self._figures(model, batch), self.weight_of(batch, None)

    def _figures(self, model: keras.Model, batch: Batch) -> Figures:
        figures = as_figures(self._step(model, batch), STEP)
        if LOSS not in figures:
            raise TrainingFailed(
                f"{STEP} gave {', '.join(figures) or 'nothing'}: it must give the loss of the "
                'batch, alone or as "loss" in a dictionary.'
            )
        return figures


def penalties_of(model: keras.Model) -> tf.Tensor | None:
    """Return the regularisation of `model` and what its layers added: a float32 scalar."""
    losses = [tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in model.losses]
    return tf.add_n(losses) if losses else None


def as_figures(result: Any, source: str) -> Figures:
    """Return the result of a recipe's function as scalars. Raises TrainingFailed."""
    found = result if isinstance(result, Mapping) else {LOSS: result}
    try:
        return {str(name): scalar(value) for name, value in found.items()}
    except (TypeError, ValueError) as error:
        raise TrainingFailed(
            f"{source} gave something that is neither a number nor a dictionary of numbers: {error}"
        ) from error


def scalar(value: Any) -> tf.Tensor:
    """Return a number, or the mean of one number per sample, as a float32 scalar."""
    return tf.cast(tf.reduce_mean(value), tf.float32)


def _weighted(loss: Any, weight: tf.Tensor) -> tf.Tensor:
    """Return the loss of each sample times its weight. Raises TrainingFailed."""
    loss = tf.convert_to_tensor(loss)
    if loss.shape.rank == 0:
        raise TrainingFailed(
            "datasets() gives sample weights, but loss(outputs, targets) gives one loss for the "
            "whole batch: let it give one loss for each sample."
        )
    weight = tf.cast(weight, loss.dtype)
    while weight.shape.rank < loss.shape.rank:
        weight = weight[..., None]
    return loss * weight
