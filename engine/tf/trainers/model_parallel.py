"""Training a model whose stages lie on several devices, in one process."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from engine.tf.local_batch import Gradients
from engine.tf.trainer import TfTrainer
from engine.tf.trainers.placement import place


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

    def _part_gradients(self, inputs: Any, targets: Any, weight: tf.Tensor) -> Gradients:
        gradients: Gradients = self._model.gradients(
            inputs,
            lambda outputs: self._weighted_loss(outputs, targets, weight),
            penalty_weight=1 / self._spec.accumulation,
            scale=self._optimizer.scale_loss,
        )
        return gradients
