"""The TensorFlow side of the training loop: model, optimizer and data of a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.runs.checkpoint_files import Position
from engine.tf import defaults, training_state
from engine.tf.batch_norm import RunningStatistics
from engine.tf.data import data_sets
from engine.tf.devices import NoHostOffload, empty_cache, memory_metrics, set_numerics
from engine.tf.graph import with_autograph
from engine.tf.optimizer_step import OptimizerStep, chosen_optimizer
from engine.tf.random_streams import RandomStreams
from engine.tf.replica import Replica
from engine.tf.tf_strategy import TfStrategy
from engine.worker.session import WorkerSession


class TfTrainer(NoHostOffload):
    """See `engine.training.protocols.Trainer`; the strategy's `Parallel` does the steps."""

    def __init__(self, session: WorkerSession, strategy: TfStrategy) -> None:
        spec = session.spec
        self._session = session
        self._parallel = strategy.parallel(session)
        set_numerics(spec)
        keras.utils.set_random_seed(spec.seed)
        recipe = session.load_recipe()

        def recipe_function(name: str, default: Any) -> Callable[..., Any]:
            """Return a function of the recipe with its settings bound, or `default`."""
            function = getattr(recipe, name, default)
            return partial(function, **session.settings_for(function))

        def graph_function(name: str, default: Callable[..., Any]) -> Callable[..., Any]:
            """Do the same for a function in a graph; the recipe's `if` may depend on a tensor."""
            function = recipe_function(name, default)
            return with_autograph(function) if hasattr(recipe, name) else default

        def make_model() -> keras.Model:
            model = recipe_function("model", None)()
            if not model.built:
                model(train.batch(tf.constant([0]))[0])
            return model

        train, validation = data_sets(recipe_function("datasets", None)())
        objective = (
            graph_function("loss", defaults.loss),
            graph_function("metrics", defaults.metrics),
        )
        distribution = self._parallel.distribution
        with distribution.scope():
            RandomStreams.prepare(spec.seed)
            stages = recipe_function("stages", None) if hasattr(recipe, "stages") else None
            model = self._parallel.make_model(make_model, stages)
            variables = model.trainable_variables
            optimizer = chosen_optimizer(spec)
            if optimizer is None:
                make_optimizer = recipe_function("optimizer", defaults.optimizer)
                optimizer = make_optimizer(variables, spec.learning_rate)
            optimizer_step = OptimizerStep(optimizer, variables, spec)
        self._replica = Replica(
            spec,
            strategy.replicas(spec.slots),
            model,
            (train, validation),
            objective,
            optimizer_step,
            RandomStreams(distribution, model, session.rank),
            RunningStatistics(distribution, model),
            self._parallel.batch_gradients,
        )
        self._sums = np.zeros(0)
        self.replicas = self._replica.replicas
        self.parameters = self._replica.parameters
        self.steps_per_epoch = self._replica.steps_per_epoch
        self.validation_batches = self._replica.validation_batches
        self._loop = self._parallel.make_loop(self._replica)

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        return self._loop.run_steps(position, count)

    def rank_metrics(self) -> dict[str, float]:
        return memory_metrics()

    def begin_validation(self) -> None:
        self._replica.statistics.sync_buffers()
        self._sums = np.zeros(1)

    def validate(self, batch: int, count: int) -> None:
        self._sums = self._sums + self._loop.validation_sums(batch, count)

    def end_validation(self) -> dict[str, float]:
        means = self._sums / len(self._replica.validation)
        return dict(zip(self._replica.metric_names, means.tolist(), strict=True))

    def save(self, folder: Path) -> None:
        self._replica.statistics.sync_buffers()
        if self._session.rank == 0:
            training_state.save(folder, self._replica.model, self._replica.optimizer)
        training_state.save_rank_state(folder, self._session.rank, self._replica.streams)

    def restore(self, folder: Path) -> None:
        training_state.restore(folder, self._replica.model, self._replica.optimizer)
        self._replica.optimizer_step.reset_learning_rate()
        training_state.restore_rank_state(folder, self._session.rank, self._replica.streams)

    def empty_cache(self) -> dict[str, int]:
        return empty_cache(self._session.devices)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        return self._parallel.agree(control_word)

    def close(self) -> None:
        self._loop.close()
        self._parallel.close()
