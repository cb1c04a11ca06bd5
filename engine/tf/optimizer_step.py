"""What happens between the gradients and the next step: schedule, clipping, optimizer."""

from __future__ import annotations

from collections.abc import Sequence
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
"""With the constants that PyTorch's optimizers of these names have."""


def chosen_optimizer(spec: RunSpec) -> keras.optimizers.Optimizer | None:
    """The optimizer that the spec asks for; None: the recipe's."""
    rate, decay = spec.learning_rate, spec.weight_decay
    if spec.optimizer == "recipe":
        return None
    if spec.optimizer == "adamw":
        return keras.optimizers.AdamW(rate, weight_decay=decay, epsilon=1e-8)
    kind, constants = _OPTIMIZERS[spec.optimizer]
    options: dict[str, Any] = dict(constants)
    if spec.optimizer != "adam":
        options["momentum"] = spec.momentum
    return (_with_decay(kind, decay) if decay else kind)(rate, **options)


def _with_decay(kind: type[Any], decay: float) -> type[Any]:
    """`kind` with weight decay that is added to the gradient. Keras' own is AdamW's, for all."""

    class Decayed(kind):  # type: ignore[misc]
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            added = gradient + tf.cast(decay, gradient.dtype) * variable
            super().update_step(added, variable, learning_rate)

    return Decayed


class Update:
    """Turns the gradients of a global batch into one optimizer step, the same on every replica."""

    def __init__(
        self, made: keras.optimizers.Optimizer, variables: Sequence[keras.Variable], spec: RunSpec
    ) -> None:
        """Build the optimizer that was `made`; call this inside the strategy's scope.

        Raises TrainingFailed where two schedules would change one learning rate.
        """
        scales = isinstance(made, keras.optimizers.LossScaleOptimizer)
        if spec.precision == "fp16" and not scales:
            made = keras.optimizers.LossScaleOptimizer(made)
        made.build(variables)
        self.optimizer = made
        self._variables = list(variables)
        self._spec = spec
        self._sets_rate = isinstance(made.learning_rate, keras.Variable)
        if self._sets_rate:
            self._rate = float(made.learning_rate.numpy())
        elif spec.schedule != "constant" or spec.warmup_steps:
            raise TrainingFailed(
                "The recipe's optimizer has a learning-rate schedule of its own: give it a number "
                "instead, or leave the schedule at constant and the warm-up steps at 0."
            )

    def rates(self, first: int, count: int, total_steps: int) -> tf.Tensor:
        """The learning rates of `count` steps after `first` steps, of `total_steps` in all.

        Float32, of shape (count,). What the recipe's own schedule gives is not known here.
        """
        spec = self._spec
        if not self._sets_rate:
            return tf.zeros((count,), tf.float32)
        steps = range(first, first + count)
        return tf.constant(
            [
                self._rate * lr_schedule.factor(spec.schedule, spec.warmup_steps, step, total_steps)
                for step in steps
            ],
            tf.float32,
        )

    def take_rate_back(self) -> None:
        """Set the learning rate to the spec's: a checkpoint may have brought another one."""
        if self._sets_rate:
            self.optimizer.learning_rate.assign(self._rate)

    def is_finite(self, loss: tf.Tensor, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        """Whether the loss and the norm of the `gradients` are; a loss scale minds the latter."""
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            return tf.math.is_finite(loss)
        return tf.math.is_finite(loss) & tf.math.is_finite(_norm(gradients))

    def apply(
        self, gradients: Sequence[tf.Tensor], rate: tf.Tensor, wanted: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """One step with `gradients`, summed over everything and scaled as the loss was; where
        `wanted` is given and false, none.

        Call this outside `Strategy.run`. Returns the figures of the step, float32 scalars.
        """
        spec = self._spec
        if self._sets_rate:
            self.optimizer.learning_rate.assign(rate)
        figures = {"learning_rate": tf.cast(self.optimizer.learning_rate, tf.float32)}
        if spec.clip_norm > 0 or spec.gradient_norm or wanted is not None:
            norm = _norm(gradients) / self.optimizer.scale_loss(tf.constant(1.0))
            figures["gradient_norm"] = norm
        if spec.clip_norm > 0:
            held = tf.minimum(1.0, spec.clip_norm / (norm + 1e-6))
            gradients = [g * tf.cast(held, g.dtype) for g in gradients]
        # The gradients are the same everywhere, so all replicas skip a step that overflowed.
        if wanted is None:
            self.optimizer.apply(gradients, self._variables)
        else:
            tf.cond(wanted, lambda: self._apply(gradients), lambda: tf.constant(False))
        return figures

    def _apply(self, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        self.optimizer.apply(gradients, self._variables)
        return tf.constant(True)


def _norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])
