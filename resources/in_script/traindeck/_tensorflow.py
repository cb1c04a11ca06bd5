"""TensorFlow models on the devices of one process: scope, replicated steps, data, random states.

Imported only when the script has imported TensorFlow.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from traindeck._errors import TraindeckError
from traindeck._source import Part, Source, samples
from traindeck._surroundings import Surroundings

_REFUSED_OPTIONS = ("clipnorm", "global_clipnorm", "clipvalue", "gradient_accumulation_steps")
"""Keras applies them before it adds up the gradients of the devices: that trains otherwise."""


class Replicas:
    """What this process does with TensorFlow, on one device or on all that the run has."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._strategy: Any = None
        self._local = threading.local()

    @property
    def device(self) -> str:
        """The name of the device on which this process computes by itself."""
        return "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"

    @property
    def replicas(self) -> int:
        """The number of devices that share each batch."""
        return 1 if self._strategy is None else int(self._strategy.num_replicas_in_sync)

    @property
    def is_mirrored(self) -> bool:
        """Whether the run has its model on all devices of this process."""
        return self._surroundings.inside and self._surroundings.strategy == "mirrored"

    def trains_on_all(self, model: Any) -> bool:
        """Whether the `fit` of a Keras model uses all devices of script/mirrored."""
        own = getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1)
        return int(own) >= int(self._begun().num_replicas_in_sync)

    @staticmethod
    def parameters(things: Iterable[Any]) -> int:
        """Return the number of parameters that models among `things` train."""
        trained = {
            id(variable): variable
            for thing in things
            if not _is_optimizer(thing)
            for variable in getattr(thing, "trainable_variables", ())
        }
        return sum(math.prod(variable.shape) for variable in trained.values())

    def scope(self) -> Any:
        """Return the context in which variables are mirrored; see `traindeck.scope`."""
        return self._begun().scope() if self.is_mirrored else contextlib.nullcontext()

    def place(self, things: Iterable[Any]) -> list[Any]:
        """Return models and optimizers of Keras or TensorFlow; see `traindeck.place`."""
        things = list(things)
        own = self._surroundings
        if own.inside and own.strategy not in ("single", "mirrored"):
            raise TraindeckError(
                f"place() cannot put a model of TensorFlow under script/{own.strategy}. Choose "
                "script/single, or script/mirrored for several devices."
            )
        models = [thing for thing in things if hasattr(thing, "trainable_variables")]
        models = [thing for thing in models if not _is_optimizer(thing)]
        for thing in things:
            if not hasattr(thing, "variables"):
                raise TraindeckError(
                    f"place() takes models and optimizers, not a {type(thing).__name__}."
                )
            if _is_optimizer(thing) and not thing.built:
                trained = [v for model in models for v in model.trainable_variables]
                if trained:
                    with self.scope():
                        thing.build(trained)
        if self.is_mirrored:
            for thing in things:
                self._check_is_mirrored(thing)
                if _is_optimizer(thing):
                    self._weigh_gradients(thing)
        return things

    def replicated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` as one that runs on each device; see `traindeck.replicated`."""
        if not self.is_mirrored:
            return function
        inner = getattr(function, "python_function", function)

        def on_replica(*arguments: Any) -> Any:
            count = tf.cast(_count(arguments), tf.float32)
            whole = tf.distribute.get_replica_context().all_reduce("SUM", count)
            self._local.weight = weight = tf.math.divide_no_nan(count, whole)
            try:
                with _unscaled_losses():
                    results = inner(*tf.nest.map_structure(_never_empty, arguments))
            finally:
                self._local.weight = None
            return tf.nest.map_structure(lambda result: _weighted(result, weight), results)

        def on_all(*arguments: Any) -> Any:
            strategy = self._begun()
            results = strategy.run(on_replica, args=arguments)
            return tf.nest.map_structure(
                lambda result: strategy.reduce("SUM", result, axis=None), results
            )

        found: Callable[..., Any] = tf.function(functools.wraps(inner)(on_all))
        return found

    def is_dataset(self, loader: Any) -> bool:
        """Whether this is a tf.data.Dataset."""
        return isinstance(loader, tf.data.Dataset)

    def source(self, dataset: Any, *, is_training: bool) -> Source:
        """Return the data as batches, in training divided over the devices."""
        strategy = self._begun() if self.is_mirrored and is_training else None
        return DatasetSource(dataset, strategy)

    def random_state(self) -> dict[str, Any]:
        """Return the states of the generators that are variables, in plain values."""
        state: dict[str, Any] = {}
        keras_generator = _keras_generator()
        if keras_generator is not None:
            state["keras"] = keras_generator.state.numpy().tolist()
        eager = _eager_generator()
        if eager is not None:
            version, words, gauss = eager.getstate()
            state["eager"] = [version, list(words), gauss]
        return state

    def set_random_state(self, state: dict[str, Any]) -> None:
        """Make those generators continue from `state`."""
        keras_generator = _keras_generator()
        if keras_generator is not None and "keras" in state:
            keras_generator.state.assign(state["keras"])
        eager = _eager_generator()
        if eager is not None and "eager" in state:
            version, words, gauss = state["eager"]
            eager.setstate((version, tuple(words), gauss))

    def seed_problem(self) -> str:
        """Return what a resume cannot repeat because TensorFlow has no seed; empty: nothing."""
        from tensorflow.python.eager import context

        if context.global_seed() is not None:
            return ""
        return (
            "TensorFlow has no seed, so the order of shuffled data and what is drawn in graphs "
            "differ after a resume. Call keras.utils.set_random_seed(...) or "
            "tf.random.set_seed(...) at the begin of the script for an exact resume."
        )

    def _begun(self) -> Any:
        if self._strategy is None:
            gpus = tf.config.list_logical_devices("GPU") if _gpus() else []
            names = [device.name for device in gpus] or self._cpus()
            self._strategy = tf.distribute.MirroredStrategy(names)
        return self._strategy

    def _cpus(self) -> list[str]:
        """Return as many logical CPU devices as the run has."""
        count = int(os.environ.get("TRAINDECK_DEVICES", "1") or 1)
        (cpu,) = tf.config.list_physical_devices("CPU")
        if count > 1 and not tf.config.get_logical_device_configuration(cpu):
            parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
            try:
                tf.config.set_logical_device_configuration(cpu, parts)
            except RuntimeError:
                raise TraindeckError(
                    "TensorFlow has computed something before traindeck.scope() was called, so "
                    "its devices cannot be divided. Call it before the first operation."
                ) from None
        return [device.name for device in tf.config.list_logical_devices("CPU")]

    def _check_is_mirrored(self, thing: Any) -> None:
        variables = [getattr(variable, "value", variable) for variable in thing.variables]
        variables = [v() if callable(v) else v for v in variables]
        if any(not isinstance(variable, tf.distribute.DistributedValues) for variable in variables):
            raise TraindeckError(
                f"The variables of {type(thing).__name__} were created outside of "
                "traindeck.scope(), so they cannot be mirrored. Create models and optimizers in "
                "`with traindeck.scope():`."
            )

    def _weigh_gradients(self, optimizer: Any) -> None:
        """Let each device's gradients count as many samples as it has: their sum is the mean."""
        for option in _REFUSED_OPTIONS:
            if getattr(optimizer, option, None) is not None:
                raise TraindeckError(
                    f"script/mirrored cannot use the optimizer's {option}: Keras applies it to the "
                    "gradients of each device instead of their sum. Leave it out, or choose "
                    "script/single."
                )
        apply = optimizer.apply

        @functools.wraps(apply)
        def weighted_apply(gradients: Any, *arguments: Any, **options: Any) -> Any:
            weight = getattr(self._local, "weight", None)
            if weight is not None:
                gradients = [None if g is None else _weighted(g, weight) for g in gradients]
            return apply(gradients, *arguments, **options)

        optimizer.apply = weighted_apply


class DatasetSource(Source):
    """A tf.data.Dataset, which reshuffles by the number of passes over it since it was made."""

    def __init__(self, dataset: Any, strategy: Any) -> None:
        # The dataset itself is the key under which this is kept: it must be able to end.
        self._dataset = weakref.ref(dataset)
        self._strategy = strategy
        self._first = 0
        count = int(dataset.cardinality().numpy())
        self.count = max(0, count)
        shapes = tf.nest.flatten(dataset.element_spec)
        self.fingerprint = ["Dataset", self.count, [str(spec) for spec in shapes]]

    def begin(self, first: int, seed: int) -> None:
        while self.passes < self.passes_before:  # in a resumed script, a shuffle counts them anew
            next(iter(self._dataset()), None)  # type: ignore[arg-type]
            self.passes += 1
        self._first = first

    def batches(self) -> Iterator[Any]:
        self.passes += 1
        rest: Any = self._dataset()
        rest = rest.skip(self._first) if self._first else rest
        if self._strategy is not None:
            rest = self._strategy.experimental_distribute_dataset(rest)
        return iter(rest)

    passes = 0
    """How often this process has begun to read the data."""

    def part(self, batch: Any) -> Part:
        if self._strategy is None:
            return Part(samples(batch), samples(batch))
        whole = sum(samples(part) for part in self._local_parts(batch))
        return Part(whole, whole)

    def _local_parts(self, batch: Any) -> list[Any]:
        first = tf.nest.flatten(batch)[0]
        return list(self._strategy.experimental_local_results(first))


def _is_optimizer(thing: Any) -> bool:
    return callable(getattr(thing, "apply", None)) and hasattr(thing, "learning_rate")


def _gpus() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _count(arguments: Any) -> Any:
    """Return the number of samples in a device's part of a batch."""
    for found in tf.nest.flatten(arguments):
        if tf.is_tensor(found) and found.shape.rank:
            return tf.shape(found)[0]
    raise TraindeckError("A replicated step gets a batch: tensors whose first dimension counts.")


def _never_empty(value: Any) -> Any:
    """Return a tensor without samples as one with a sample of zeros, which has the weight 0."""
    if not tf.is_tensor(value) or not value.shape.rank or value.shape[0]:
        return value
    missing = tf.cast(tf.equal(tf.shape(value)[0], 0), tf.int32)
    return tf.pad(value, [[0, missing], *([[0, 0]] * (value.shape.rank - 1))])


def _weighted(value: Any, weight: Any) -> Any:
    """Return `value` times the share of a device; 0 if it had no samples, also if it is NaN."""
    if isinstance(value, tf.IndexedSlices):
        return tf.IndexedSlices(_weighted(value.values, weight), value.indices, value.dense_shape)
    tensor = tf.convert_to_tensor(value)
    if not tensor.dtype.is_floating:
        raise TraindeckError(
            "A replicated step returns figures that are means over its batch, as floating point "
            f"numbers, not a value of the type {tensor.dtype.name}."
        )
    return tf.math.multiply_no_nan(tensor, tf.cast(weight, tensor.dtype))


@contextlib.contextmanager
def _unscaled_losses() -> Iterator[None]:
    """Keras divides losses by the number of devices: here, gradients are weighted instead."""
    module = sys.modules.get("keras.src.losses.loss")
    original = getattr(module, "scale_loss_for_distribution", None)
    if module is None or original is None:
        yield
        return
    module.scale_loss_for_distribution = _unchanged  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.scale_loss_for_distribution = original  # type: ignore[attr-defined]


def _unchanged(value: Any) -> Any:
    return value


def _keras_generator() -> Any:
    """Return the global generator of keras.random, if it was used."""
    state = sys.modules.get("keras.src.backend.common.global_state")
    return None if state is None else state.get_global_attribute("global_seed_generator")


def _eager_generator() -> Any:
    """Return what the seeds of eager random operations are drawn from."""
    from tensorflow.python.eager import context

    return getattr(context.context(), "_rng", None)
