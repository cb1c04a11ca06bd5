"""The optimizer step that follows the gradients: learning-rate schedule, clipping, update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from engine.spec.run_spec import RunSpec
from engine.training import lr_schedule
from engine.training.errors import TrainingFailed

_OPTIMIZERS: dict[str, tuple[type[Any], dict[str, float]]] = {
    "sgd": (keras.optimizers.SGD, {}),
    "adam": (keras.optimizers.Adam, {"epsilon": 1e-8}),
    "rmsprop": (keras.optimizers.RMSprop, {"rho": 0.99, "epsilon": 1e-8}),
}
"""The class of each optimizer, with the constants that PyTorch uses by default."""


def chosen_optimizer(spec: RunSpec) -> keras.optimizers.Optimizer | None:
    """Return the optimizer of the spec; None if the spec leaves it to the recipe."""
    rate, decay = spec.learning_rate, spec.weight_decay
    if spec.optimizer == "recipe":
        return None
    if spec.optimizer == "adamw":
        return keras.optimizers.AdamW(rate, weight_decay=decay, epsilon=1e-8)
    optimizer_class, constants = _OPTIMIZERS[spec.optimizer]
    options: dict[str, Any] = dict(constants)
    if spec.optimizer != "adam":
        options["momentum"] = spec.momentum
    return (_with_decay(optimizer_class, decay) if decay else optimizer_class)(rate, **options)


def _with_decay(optimizer_class: type[Any], decay: float) -> type[Any]:
    """Return a subclass that adds weight decay to the gradient, as PyTorch's Adam does.

    Keras' own weight decay is decoupled for every optimizer, as in AdamW.
    """

    class Decayed(optimizer_class):  # type: ignore[misc]
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            added = gradient + tf.cast(decay, gradient.dtype) * variable
            super().update_step(added, variable, learning_rate)

    return Decayed


class OptimizerStep:
    """Turns the gradients of a global batch into one optimizer step, the same on every replica."""

    def __init__(
        self,
        optimizer: keras.optimizers.Optimizer,
        variables: Sequence[keras.Variable],
        spec: RunSpec,
    ) -> None:
        """Build `optimizer`; call this inside `tf.distribute.Strategy.scope`.

        Raises TrainingFailed when both the recipe and the spec have a learning-rate schedule.
        """
        has_loss_scale = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        if spec.precision == "fp16" and not has_loss_scale:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        if not optimizer.built:
            optimizer.build(variables)
        self.optimizer = optimizer
        self._variables = list(variables)
        self._spec = spec
        self._sets_rate = isinstance(optimizer.learning_rate, keras.Variable)
        self.rate = 0.0
        """The learning rate without the schedule of the spec; unused if the recipe has its own."""

        if self._sets_rate:
            self.rate = float(optimizer.learning_rate.numpy())
        elif spec.schedule != "constant" or spec.warmup_steps:
            raise TrainingFailed(
                "The recipe's optimizer has a learning-rate schedule of its own: give it a number "
                "instead, or leave the schedule at constant and the warm-up steps at 0."
            )

    def learning_rates(self, first: int, count: int, total_steps: int) -> tf.Tensor:
        """Return the learning rates of `count` steps from step `first` on, of `total_steps`.

        Float32, of shape (count,). If the recipe has its own schedule, return unused zeros.
        """
        spec = self._spec
        if not self._sets_rate:
            return tf.zeros((count,), tf.float32)
        steps = range(first, first + count)
        return tf.constant(
            [
                self.rate * lr_schedule.factor(spec.schedule, spec.warmup_steps, step, total_steps)
                for step in steps
            ],
            tf.float32,
        )

    @contextmanager
    def following_changes(self) -> Iterator[None]:
        """Take over the learning rate that the recipe gives to the optimizer within this context.

        Raises TrainingFailed if it does, and the spec has a schedule.
        """
        if not self._sets_rate:
            yield
            return
        before = float(self.optimizer.learning_rate.numpy())
        yield
        rate = float(self.optimizer.learning_rate.numpy())
        if rate == before:
            return
        if self._spec.schedule != "constant" or self._spec.warmup_steps:
            raise TrainingFailed(
                "The recipe has changed the learning rate (callbacks() or on_epoch()), and the run "
                "has a schedule: choose the schedule constant without warm-up steps."
            )
        self.rate = rate

    def begin(self, rate: tf.Tensor) -> dict[str, tf.Tensor]:
        """Set the learning rate `rate` for a step that the model does; return it as a metric.

        Without a schedule it is left alone, for the model's step may change it.
        """
        has_schedule = self._spec.schedule != "constant" or self._spec.warmup_steps > 0
        if self._sets_rate and has_schedule:
            self.optimizer.learning_rate.assign(rate)
            return {"learning_rate": rate}
        return {"learning_rate": tf.cast(self.optimizer.learning_rate, tf.float32)}

    def reset_learning_rate(self) -> None:
        """Replace the learning rate of a restored checkpoint by that of the optimizer."""
        if self._sets_rate:
            self.optimizer.learning_rate.assign(self.rate)

    def is_finite(self, loss: tf.Tensor, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return whether the loss and the norm of `gradients` are finite, as a boolean scalar.

        With a loss scale only the loss counts: LossScaleOptimizer skips infinite gradients.
        """
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            return tf.math.is_finite(loss)
        return tf.math.is_finite(loss) & tf.math.is_finite(_norm(gradients))

    def apply(
        self, gradients: Sequence[tf.Tensor], rate: tf.Tensor, condition: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Do one step in place, if `condition` is None or true; return its metrics.

        `gradients` are those of the global batch, in the order of the variables and with the loss
        scale; `rate` is a float32 scalar. Called in a graph, outside of `Strategy.run` (but inside
        in a worker with parameter servers). The metrics are float32 scalars.
        """
        spec = self._spec
        if self._sets_rate:
            self.optimizer.learning_rate.assign(rate)
        else:
            rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        # Not read back: with parameter servers, another worker may have assigned its own by now.
        metrics = {"learning_rate": rate}
        if spec.clip_norm > 0 or spec.gradient_norm or condition is not None:
            norm = _norm(gradients) / self.optimizer.scale_loss(tf.constant(1.0))
            metrics["gradient_norm"] = norm
        if spec.clip_norm > 0:
            # The formula of PyTorch's clip_grad_norm_.
            factor = tf.minimum(1.0, spec.clip_norm / (norm + 1e-6))
            gradients = [g * tf.cast(factor, g.dtype) for g in gradients]
        # All replicas have the same gradients, so all of them skip a step with an overflow.
        if condition is None:
            self.optimizer.apply(gradients, self._variables)
        else:
            tf.cond(condition, lambda: self._apply(gradients), lambda: tf.constant(False))
        return metrics

    def _apply(self, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        self.optimizer.apply(gradients, self._variables)
        return tf.constant(True)


def _norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])
