"""Looks into a step that TensorFlow has done: its samples, layers, gradients and update.

A step is one graph, which cannot be looked into. So it is computed once more by itself, without a
graph, with the weights that were there before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from msgspec.structs import replace

from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf.recipe.objective import LOSS, Objective
from engine.tf.replica import Replica
from engine.tf.samples.data import ArraySamples, Batch
from engine.tf.samples.local_batch import Share
from engine.training import sample_order
from engine.training.probes.keras_layers import settings_of, watch_layers
from engine.training.probes.sample_figures import describe_inputs, describe_target
from engine.training.probes.step_inspection import (
    MOST_ALONE,
    MOST_PICTURES,
    MOST_SAMPLES,
    LayerFigures,
    ParameterFigures,
    RankInspection,
    SampleFigures,
    joined,
    plain_settings,
    suspicion,
)
from engine.training.recipe_functions import check_sample_losses

Array = npt.NDArray[Any]


class StepInspector:
    """The inspection of one step by rank 0, for all replicas; made before the step."""

    def __init__(self, replica: Replica, model: keras.Model, position: Position) -> None:
        """`model` is the recipe's own, and `position` the one before the step."""
        self._replica, self._model, self._position = replica, model, position
        self._variables = model.variables
        self._before = [np.array(variable) for variable in self._variables]
        self._layers: dict[str, LayerFigures] = {}
        self._names: list[str] = []
        self._notes = [
            "TensorFlow computes a step as one graph: all figures but the updates were computed "
            "again after it, with the weights before it: outputs of layers and gradients for one "
            "local batch after the other, and samples in evaluation mode."
        ]
        self._in_evaluation = self._has_own = False

    def inspect(self) -> RankInspection:
        """Return what is seen of the step, which is done; the weights are then those before it."""
        after = [np.array(variable) for variable in self._variables]
        self._bring_back()
        gradients: list[Array | None] = [None] * len(self._replica.variables)
        samples: list[SampleFigures] = []
        if not isinstance(self._replica.train, ArraySamples):
            self._notes.append("The data set gives batches in its own order: they are not shown.")
        else:
            indices = self._indices(self._replica.train)
            batch = self._replica.train.batch(tf.constant(indices))
            gradients = self._whole_batch(self._replica.train, indices)
            samples = self._samples(batch, indices, gradients)
        return RankInspection(
            rank=0,
            samples=tuple(samples[:MOST_SAMPLES]),
            samples_in_all=len(samples),
            layers=tuple(self._layers.values()),
            parameters=tuple(self._parameters(after, gradients)),
            own_losses=self._has_own,
            losses_alone=True,
            in_evaluation=self._in_evaluation,
            notes=tuple(self._notes),
        )

    def _indices(self, data: ArraySamples) -> Array:
        spec, position = self._replica.spec, self._position
        order = sample_order.epoch_order(len(data), spec.seed, position.epoch)
        return sample_order.global_batch(order, position.batch, spec.batch_size)

    def _whole_batch(self, data: ArraySamples, indices: Array) -> list[Array | None]:
        """Note the outputs of the layers for the batch; return the gradients of its loss.

        In training mode, or else, where the recipe has a train_step(), in evaluation mode. A
        BatchNorm sees one local batch at a time, unless it is synchronised.
        """
        layers = self._model._flatten_layers()
        is_whole = any(getattr(layer, "synchronized", False) for layer in layers)
        count = 1 if is_whole else self._replica.local_batches
        parts = [sample_order.replica_samples(indices, part, count) for part in range(count)]
        parts = [part for part in parts if len(part)]
        undo: list[Callable[[], object]] = []
        problem: Exception | None = None
        try:
            undo = watch_layers(self._model, self._note_outputs)
            for loss in (self._training_loss, self._loss):
                self._layers.clear()
                self._in_evaluation = loss != self._training_loss
                try:
                    found = [self._gradients_of_part(loss, data, part) for part in parts]
                except Exception as error:
                    problem = error
                    continue
                shares = [len(part) / len(indices) for part in parts]
                return [_weighted_sum(each, shares) for each in zip(*found, strict=True)]
        finally:
            for each in undo:
                each()
        self._notes.append(f"The batch cannot be computed without a graph: {problem}")
        return [None] * len(self._replica.variables)

    def _gradients_of_part(
        self, loss: Callable[[Batch], tf.Tensor], data: ArraySamples, part: Array
    ) -> list[Array | None]:
        self._names = [f"sample {index}" for index in part.tolist()]
        try:
            return self._gradients(loss, data.batch(tf.constant(part)))
        finally:
            self._bring_back()  # such as running means

    def _bring_back(self) -> None:
        for variable, value in zip(self._variables, self._before, strict=True):
            variable.assign(value)

    def _training_loss(self, batch: Batch) -> tf.Tensor:
        """Return the loss of a batch that the step minimises, with its regularisation."""
        one = tf.constant(1.0)
        found = self._replica.objective.training_loss(self._model, batch, Share(one, one, False))
        penalties = 0.0 if found.penalties is None else found.penalties
        return found.figures[LOSS] + penalties

    def _loss(self, batch: Batch) -> tf.Tensor:
        """Return the loss of a batch, in evaluation mode where the model is called by us."""
        one = tf.constant(1.0)
        objective: Objective = self._replica.objective
        if not objective.uses_outputs:
            figures, _ = objective.validation_figures(self._model, batch, Share(one, one, False))
            return figures[LOSS]
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = self._model(inputs, training=False)
        share = Share(one, one, False)
        return objective.output_figures(batch, outputs, share, training=False)[LOSS]

    def _gradients(self, loss: Callable[[Batch], tf.Tensor], batch: Batch) -> list[Array | None]:
        with tf.GradientTape() as tape:
            value = loss(batch)
        found = tape.gradient(value, [variable.value for variable in self._replica.variables])
        return [None if each is None else np.array(tf.convert_to_tensor(each)) for each in found]

    def _samples(
        self, batch: Batch, indices: Array, gradients: Sequence[Array | None]
    ) -> list[SampleFigures]:
        """Return the samples of the batch, the most suspicious one first."""
        found = []
        losses = self._own_losses(batch, len(indices))
        for row, index in enumerate(indices.tolist()):
            own = _row(batch, row)
            loss: float | None = None
            try:
                loss = losses[row] if losses else float(self._loss(own))
            except Exception as error:
                note = f"The loss of single samples cannot be computed: {error}"
                if note not in self._notes:
                    self._notes.append(note)
            found.append((_sample(own, index, loss, shows=row < MOST_PICTURES), own))
        found.sort(key=lambda each: suspicion(each[0]))
        is_fine = all(each is None or bool(np.isfinite(each).all()) for each in gradients)
        most = MOST_ALONE if is_fine else MOST_SAMPLES
        for number, (sample, own) in enumerate(found[:most]):
            with suppress(Exception):  # as the loss, of which it was said
                norm = _norm([g for g in self._gradients(self._loss, own) if g is not None])
                found[number] = replace(sample, gradient_norm=norm), own
        return sorted((sample for sample, _ in found), key=suspicion)

    def _own_losses(self, batch: Batch, count: int) -> list[float]:
        """Return the loss of each sample as sample_loss() of the recipe gives it; empty: it has
        none, or gave something else."""
        objective: Objective = self._replica.objective
        if objective.sample_loss is None:
            return []
        try:
            if objective.uses_outputs:
                inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(batch)
                given = self._model(inputs, training=False), targets
            else:
                given = self._model, batch
            losses = np.array(objective.sample_loss(*given))
            check_sample_losses(losses.shape, count, has_step=not objective.uses_outputs)
        except Exception as error:
            self._notes.append(f"The losses are computed without sample_loss(): {error}")
            return []
        self._has_own = True
        found: list[float] = losses.tolist()
        return found

    def _parameters(
        self, after: Sequence[Array], gradients: Sequence[Array | None]
    ) -> list[ParameterFigures]:
        by_path = {
            variable.path: (value, new)
            for variable, value, new in zip(self._variables, self._before, after, strict=True)
        }
        found = []
        described = _described(self._replica.optimizer)
        for variable, gradient in zip(self._replica.variables, gradients, strict=True):
            if variable.path not in by_path:
                continue
            value, new = by_path[variable.path]
            found.append(
                ParameterFigures(
                    name=variable.path,
                    weight_norm=_norm([value]),
                    gradient_norm=None if gradient is None else _norm([gradient]),
                    update_norm=_norm([new - value]),
                    optimizer=described,
                )
            )
        return found

    def _note_outputs(self, name: str, layer: Any, inputs: Any, outputs: Any) -> None:
        values = _floats(outputs)
        if not values.size:
            return
        is_finite = np.isfinite(values)
        finite = values[is_finite]
        before = self._layers.get(name)
        found = LayerFigures(
            name=name,
            kind=type(layer).__name__,
            mean=float(finite.mean()) if finite.size else math.nan,
            smallest=float(finite.min()) if finite.size else math.inf,
            largest=float(finite.max()) if finite.size else -math.inf,
            not_finite=float(1 - is_finite.mean()),
            has_finite_inputs=bool(np.isfinite(_floats(inputs)).all()),
            samples=self._bad_rows(outputs),
            root_mean_square=_norm([finite]) / math.sqrt(finite.size) if finite.size else math.nan,
            mean_size=float(np.abs(finite).mean()) if finite.size else math.nan,
            count=values.size,
            settings=settings_of(layer),
        )
        self._layers[name] = joined([before, found]) if before else found

    def _bad_rows(self, outputs: Any) -> tuple[str, ...]:
        """Return the samples for which the outputs of a layer are not finite, if not all."""
        rows = np.zeros(len(self._names), bool)
        for leaf in tf.nest.flatten(outputs):
            values = _floats(leaf)
            if values.size and leaf.shape.rank and leaf.shape[0] == len(rows):
                rows |= ~np.isfinite(values.reshape(len(rows), -1)).all(1)
        if rows.all():
            return ()
        return tuple(self._names[row] for row in np.flatnonzero(rows))


def _described(optimizer: keras.optimizers.Optimizer) -> str:
    """Return what updates the weights, and how; empty: it cannot say."""
    numbers = {k: v for k, v in vars(optimizer).items() if not k.startswith("_")}
    left_out = ("name", "built")
    try:  # get_config() has no number where the rate is a distributed variable
        numbers["learning_rate"] = float(np.array(tf.convert_to_tensor(optimizer.learning_rate)))
    except Exception:
        return ""
    shown = plain_settings({k: v for k, v in numbers.items() if k not in left_out})
    return f"{type(optimizer).__name__}, {shown}"


def _row(batch: Batch, row: int) -> Batch:
    return tf.nest.map_structure(lambda tensor: tensor[row : row + 1], batch)


def _sample(own: Batch, index: int, loss: float | None, *, shows: bool) -> SampleFigures:
    inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(own)
    shown = [_shown(leaf) for leaf in tf.nest.flatten(targets)] if targets is not None else []
    return SampleFigures(
        name=f"sample {index}",
        rank=0,
        loss=loss,
        target=describe_target(shown[0]) if len(shown) == 1 else "",
        inputs=describe_inputs([_shown(leaf) for leaf in tf.nest.flatten(inputs)], shows=shows),
    )


def _shown(leaf: Any) -> Array | str:
    value = leaf[0].numpy()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return np.asarray(value)


def _floats(tree: Any) -> Array:
    """Return all numbers of floating-point tensors, flat."""
    leaves = [
        np.array(tf.cast(leaf, tf.float32)).reshape(-1)
        for leaf in tf.nest.flatten(tree)
        if isinstance(leaf, tf.Tensor) and leaf.dtype.is_floating
    ]
    return np.concatenate(leaves) if leaves else np.empty(0, np.float32)


def _weighted_sum(arrays: Sequence[Array | None], shares: Sequence[float]) -> Array | None:
    known = [
        array * share for array, share in zip(arrays, shares, strict=True) if array is not None
    ]
    return np.sum(known, axis=0) if known else None


def _norm(arrays: Sequence[Array]) -> float:
    return math.hypot(*(float(np.linalg.norm(a.astype(np.float64).reshape(-1))) for a in arrays))
