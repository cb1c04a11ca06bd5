"""Training a model whose stages lie on several devices, in one process."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from engine.tf.placement import place
from engine.tf.trainer import TfTrainer


class PlacedTrainer(TfTrainer):
    """One replica over all devices; all but the gradients is as on one device."""

    def _make_model(self, recipe: ModuleType) -> keras.Model:
        sample = self._train.batch(tf.constant([0], tf.int64))[0]

        def make() -> keras.Model:
            model = super(PlacedTrainer, self)._make_model(recipe)
            if not model.built:
                model(sample)
            return model

        stages: Any = getattr(recipe, "stages", None)
        if stages is not None:
            stages = partial(stages, **self._session.settings_for(stages))
        return place(make, stages, self._scope.devices)

    def _replica_step(self, whole: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        inputs, targets = self._train.batch(whole)

        def loss(outputs: Any) -> tf.Tensor:
            return tf.cast(tf.reduce_mean(self._loss(outputs, targets)), tf.float32)

        found, gradients = self._model.gradients(inputs, loss)
        return found, gradients
