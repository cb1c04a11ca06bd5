"""Keeps the step of a Keras recipe that has failed, as `engine.pytorch.probes.failed_step` does.

A step is one of several in one graph, and the exception does not say which. So each batch of the
graph is computed once more without one, until the failure is there again. The process is about to
end.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.cases.evidence import (
    MOST_BATCH,
    MOST_WEIGHTS,
    Evidence,
    Kind,
    Raw,
    text_of,
    tree_of,
    write_evidence,
)
from engine.runs.checkpoints.checkpoint_files import Position
from engine.tf.replica import Replica
from engine.tf.samples.data import ArraySamples, Batch, samples_in
from engine.tf.samples.local_batch import Share
from engine.training import sample_order
from engine.training.errors import LossNotFinite, OutOfMemory

TRIAL_SECONDS = 4.0
"""Time to look for the batch, and for a smaller part, that fails."""

_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_NOT_FINITE = ("", "the loss is not finite")
Failed = tuple[str, str]
"""The class and the text of an exception."""


class FailedStep:
    """What a process keeps of the step that has failed."""

    def __init__(self, replica: Replica, model: keras.Model, place: tuple[Path, int, int]) -> None:
        """`model`: the recipe's own. `place`: folder of the run, attempt, and rank."""
        self._replica, self._model = replica, model
        self._folder, attempt, rank = place
        self._fields: dict[str, Any] = {"attempt": attempt, "rank": rank}
        self._notes: list[str] = []
        self._kept: dict[str, Raw] = {}
        self._until = time.monotonic() + TRIAL_SECONDS

    def keep(
        self, error: BaseException, positions: Iterator[Position], weights: Iterator[str]
    ) -> None:
        """Write what there is of the step that `error` has ended. Raises OSError.

        `positions`: of the steps that it may be; `weights` brings those in place that may have
        failed, one set after the other, and yields what they are.
        """
        kind = Kind.ERROR
        if isinstance(error, OutOfMemory):
            kind = Kind.MEMORY
        elif isinstance(error, LossNotFinite):
            kind = Kind.NOT_FINITE
        on_gpu = bool(tf.config.get_visible_devices("GPU"))
        self._fields |= {"kind": kind, "device": "cuda" if on_gpu else "cpu"}
        self._fields |= {"error": type(error).__name__, "message": text_of(error)}
        data, known = self._replica.train, list(positions)
        if not isinstance(data, ArraySamples):
            self._notes.append("The data set gives batches in its own order: none was kept.")
        elif known:
            self._note_place(known[0])
            if kind == Kind.MEMORY:
                self._put(data.batch(tf.constant(self._indices(data, known[0]))))
            else:
                self._keep_what_fails(data, known, weights)
        found = self._weights() if self._kept else {}
        self._fields |= {"has_weights": bool(found), "notes": tuple(self._notes)}
        write_evidence(self._folder, Evidence(**self._fields), self._kept, found)

    def _keep_what_fails(
        self, data: ArraySamples, positions: list[Position], weights: Iterator[str]
    ) -> None:
        try:
            found = self._keep_failing(data, positions, weights)
        except Exception as error:  # the model cannot be made again
            found = False
            self._notes.append(f"Other weights were not found: {error}")
        if not found:
            self._fields["repeats"] = False
            self._notes.append("The failure was not there again when the step was repeated.")

    def _keep_failing(
        self, data: ArraySamples, positions: list[Position], weights: Iterator[str]
    ) -> bool:
        """Keep the first batch that fails, and return whether one does."""
        for name in weights:
            for position in positions:
                if time.monotonic() > self._until:
                    return False
                indices = self._indices(data, position)
                batch = data.batch(tf.constant(indices))
                if (failure := self._failure_of(batch)) and self._is_wanted(failure):
                    self._note_place(position)
                    if name:
                        self._notes.append(f"The weights are {name}.")
                    self._keep_smallest(batch, indices.tolist(), failure)
                    return True
        return False

    def _is_wanted(self, failure: Failed) -> bool:
        asks_for_nan: bool = self._fields["kind"] == Kind.NOT_FINITE
        return (failure == _NOT_FINITE) == asks_for_nan

    def _keep_smallest(self, batch: Batch, indices: list[int], failure: Failed) -> None:
        """Keep the smallest part of a batch that fails in the same way, by halving."""
        self._fields["rows_before"] = len(indices)
        while len(indices) > 1 and time.monotonic() < self._until:
            half = len(indices) // 2
            for part in (slice(0, half), slice(half, len(indices))):
                smaller = tf.nest.map_structure(lambda leaf, part=part: leaf[part], batch)
                found = self._failure_of(smaller)
                if found is not None and _shape_of(found) == _shape_of(failure):
                    batch, indices, failure = smaller, indices[part], found
                    break
            else:
                break
        names = tuple(f"sample {index}" for index in indices[:100])
        self._fields |= {"error": failure[0], "message": "", "repeats": True}
        if failure != _NOT_FINITE:
            self._fields["message"] = failure[1]
        self._fields |= {"rows": len(indices), "samples": names}
        self._put(batch)

    def _failure_of(self, batch: Batch) -> Failed | None:
        """Compute loss and gradients of a batch; return how that fails."""
        one = tf.constant(1.0)
        try:
            with tf.GradientTape() as tape:
                share = Share(one, one, False)
                found = self._replica.objective.training_loss(self._model, batch, share)
                loss = found.figures["loss"]
            tape.gradient(loss, self._model.trainable_variables)
        except Exception as error:
            return type(error).__name__, text_of(error)
        return None if math.isfinite(float(loss)) else _NOT_FINITE

    def _indices(self, data: ArraySamples, position: Position) -> Any:
        spec = self._replica.spec
        order = sample_order.epoch_order(len(data), spec.seed, position.epoch)
        return sample_order.global_batch(order, position.batch, spec.batch_size)

    def _note_place(self, position: Position) -> None:
        place = {"epoch": position.epoch, "batch": position.batch, "step": position.step + 1}
        self._fields |= place

    def _put(self, batch: Batch) -> None:
        """Keep the values of a batch, or their sizes where they are too large."""
        leaves = [leaf for leaf in tf.nest.flatten(batch) if isinstance(leaf, tf.Tensor)]
        size = sum(leaf.dtype.size * int(tf.size(leaf)) for leaf in leaves)
        keeps = size <= MOST_BATCH and self._fields["kind"] != Kind.MEMORY
        if size > MOST_BATCH:
            self._notes.append("The batch is too large to be kept: its sizes are.")
        self._fields.setdefault("rows_before", int(samples_in(batch)))

        def put(leaf: Any) -> dict[str, Any] | None:
            if not isinstance(leaf, tf.Tensor) or leaf.dtype.name not in _TYPES:
                return None
            name = str(len(self._kept))
            if keeps:
                self._kept[name] = _raw(leaf)
            shape = leaf.shape.as_list()
            return {"tensor": name, "shape": shape, "dtype": _TYPES[leaf.dtype.name]}

        self._fields["tree"] = tree_of(batch, put)

    def _weights(self) -> dict[str, Raw]:
        """Return the variables of the model by their number, if they fit."""
        found = [tf.convert_to_tensor(each) for each in self._model.variables]
        if sum(each.dtype.size * int(tf.size(each)) for each in found) > MOST_WEIGHTS:
            self._notes.append("The weights are too large to be kept.")
            return {}
        return {str(number): _raw(each) for number, each in enumerate(found)}


def _shape_of(failure: Failed) -> Failed:
    """Return a failure without numbers: a smaller batch has other sizes."""
    return failure[0], re.sub(r"[\d ,]+", "#", failure[1])


def _raw(leaf: tf.Tensor) -> Raw:
    own = np.ascontiguousarray(leaf.numpy())
    return Raw(_TYPES[leaf.dtype.name], own.shape, own.tobytes())
