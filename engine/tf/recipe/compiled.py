"""A compiled Keras model: its loss, metrics and own methods, used as Keras' `fit` uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend
from keras.src.losses import loss as keras_losses

from engine.tf.recipe.objective import LOSS, Figures, Loss, Objective, scalar
from engine.tf.recipe.own_steps import overrides
from engine.tf.samples.data import Batch
from engine.tf.samples.local_batch import Share
from engine.training.errors import TrainingFailed

_MEANS = ("sum_over_batch_size", "mean")


def weigh_local_batches_once() -> None:
    """Let the losses of Keras be means over a replica's local batch.

    Keras divides them by the number of replicas, but not a loss that a recipe computes by itself.
    Here each local batch has its weight in the global batch instead.
    """
    keras_losses.scale_loss_for_distribution = lambda value: value
    keras_losses.unscale_loss_for_distribution = lambda value: value


def is_compiled(model: keras.Model) -> bool:
    """Return whether the recipe has called `compile` of its model."""
    return bool(getattr(model, "compiled", False))


def has_loss(model: keras.Model) -> bool:
    """Return whether a compiled model knows its loss: by `compile`, or by a method of its own."""
    return (
        model._compile_loss is not None
        or overrides(model, "compute_loss")
        or overrides(model, "train_step")
    )


class CompiledObjective(Objective):
    """Loss and metrics of a compiled model."""

    shows_penalties = True

    def __init__(
        self,
        model: keras.Model,
        metrics: Callable[..., Any],
        *,
        loss: Callable[..., Any] | None,
        weight: Callable[..., Any] | None,
        validate: Callable[..., Any] | None,
    ) -> None:
        """`loss` is the recipe's, for a model that was compiled without one."""
        super().__init__(loss, metrics, weight=weight, validate=validate)
        self._model = model
        self._owns_loss = overrides(model, "compute_loss")
        self._owns_metrics = overrides(model, "compute_metrics")
        self._parts: tuple[_PartOfLoss, ...] = ()
        self._masks = False
        self._is_sum = False
        self.uses_outputs = not self._owns_loss
        self.shows_penalties = not self._owns_loss  # the author's method adds them, or does not

    @property
    def is_weighted(self) -> bool:
        return self._masks or super().is_weighted

    def build(self, model: keras.Model, batch: Batch, parts: int) -> None:
        compiled = self._model
        compiled._symbolic_build(data_batch=batch)
        if compiled._compile_loss is not None:
            # Their means would count local batches. Keep the value of each batch instead.
            kept = [_PartOfLoss(metric.name) for metric in compiled._compile_loss.metrics]
            self._parts = tuple(kept)
            compiled._compile_loss._metrics[:] = kept
            self._check_loss(model, batch, parts)
        self.metric_objects = tuple(
            metric
            for metric in compiled.metrics
            if metric is not compiled._loss_tracker and not isinstance(metric, _PartOfLoss)
        )
        self.names = [LOSS, *(part.name for part in self._parts)]
        if self._owns_loss and self._parts:
            traced = tf.function(lambda: self._figures_of(model, batch), autograph=False)
            found = traced.get_concrete_function().structured_outputs
            self.names = [name for name in self.names if name in found]

    def output_figures(
        self, batch: Batch, outputs: Any, share: Share, *, training: bool
    ) -> Figures:
        if self._loss is not None:
            return super().output_figures(batch, outputs, share, training=training)
        inputs, targets, weight = keras.utils.unpack_x_y_sample_weight(batch)
        for part in self._parts:
            part.value = None
        loss: Any = None
        if self._owns_loss:
            loss = self._model._compute_loss(
                x=inputs, y=targets, y_pred=outputs, sample_weight=weight, training=training
            )
        elif self._model._compile_loss is not None:
            loss = self._model._compile_loss(targets, outputs, weight)
        elif not self._model.losses:
            raise TrainingFailed(
                "The model is compiled without a loss, and no layer adds one: give loss=... in "
                "compile(), or define loss(outputs, targets) in the recipe."
            )
        figures = {LOSS: tf.constant(0.0) if loss is None else scalar(loss)}
        figures |= {part.name: scalar(part.value) for part in self._parts if part.value is not None}
        if self._is_sum:
            return {name: share.mean_of_sum(value) for name, value in figures.items()}
        return figures

    def loss_of(
        self, batch: Batch, outputs: Any, share: Share, penalties: tf.Tensor | None
    ) -> Loss:
        return super().loss_of(batch, outputs, share, None if self._owns_loss else penalties)

    def weight_of(self, batch: Batch, outputs: Any) -> tf.Tensor | None:
        if self._weight is None and self._masks:
            (mask,) = _masks_of(outputs)
            return tf.reduce_sum(tf.cast(mask, tf.float32))
        return super().weight_of(batch, outputs)

    def update_metrics(self, batch: Batch, outputs: Any) -> None:
        inputs, targets, weight = keras.utils.unpack_x_y_sample_weight(batch)
        if self._owns_metrics:
            found = self._model.compute_metrics(inputs, targets, outputs, sample_weight=weight)
            if unknown := set(found) - set(self._model.get_metrics_result()):
                raise TrainingFailed(
                    f"compute_metrics() of the model gives {', '.join(sorted(unknown))}, which is "
                    "no metric of it: make it a keras.metrics.Metric of the model."
                )
        elif self._model._compile_metrics is not None:
            self._model._compile_metrics.update_state(targets, outputs, weight)

    def metric_results(self) -> Figures:
        if not self.metric_objects:
            return {}
        found = self._model.get_metrics_result()
        hidden = {*self.names, LOSS, *(part.name for part in self._parts)}
        return {name: scalar(value) for name, value in found.items() if name not in hidden}

    def reset_metrics(self) -> None:
        for metric in self.metric_objects:
            metric.reset_state()

    def _figures_of(self, model: keras.Model, batch: Batch) -> Figures:
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        one = tf.constant(1.0)
        outputs = model(inputs, training=True)
        return self.output_figures(batch, outputs, Share(one, one, False), training=True)

    def _check_loss(self, model: keras.Model, batch: Batch, parts: int) -> None:
        """Find out how the loss of a batch follows from the losses of its local batches."""
        losses = [each.loss for each in self._model._compile_loss._flat_losses or ()]
        reductions = {getattr(loss, "reduction", None) or "none" for loss in losses}
        if "none" in reductions:
            raise TrainingFailed(
                "A loss in compile() has the reduction none: choose sum_over_batch_size, which is "
                "the mean over the samples, or sum."
            )
        if parts == 1 or self._weight is not None:
            return
        inputs, _, weight = keras.utils.unpack_x_y_sample_weight(batch)
        if reductions == {"sum"}:
            self._is_sum = True
        elif not reductions.issubset(_MEANS) and (weight is not None or "sum" in reductions):
            raise _needs_one_part(
                f"The losses in compile() have the reductions {', '.join(sorted(reductions))}"
            )
        masks = _masks_of(model(inputs, training=False))
        if masks and not self._is_sum:
            if len(losses) > 1 or len(masks) > 1:
                raise _needs_one_part("Several outputs of the model have masks")
            self._masks = True


class _PartOfLoss:
    """In place of the running mean of the loss of one output: keeps the value of a batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Any = None
        self.variables: tuple[Any, ...] = ()

    def update_state(self, value: Any, sample_weight: Any = None) -> None:
        self.value = value

    def reset_state(self) -> None:
        self.value = None

    def result(self) -> tf.Tensor:
        return tf.constant(0.0)


def _masks_of(outputs: Any) -> list[Any]:
    """Return the masks of the samples' parts that count, of the outputs that have one."""
    masks = [backend.get_keras_mask(output) for output in tf.nest.flatten(outputs)]
    return [mask for mask in masks if mask is not None]


def _needs_one_part(reason: str) -> TrainingFailed:
    return TrainingFailed(
        f"{reason}, so the loss of a batch does not follow from the losses of its parts: choose "
        "tf/single without accumulation and with on_oom stop, or define weight(batch) in the "
        "recipe."
    )
