"""The content of a TensorFlow checkpoint: the variables once, and the random state of each rank.

`tf.train.Checkpoint` writes the variables, and any strategy can read them. Reading never runs code.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import keras
import msgspec
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from engine.tf.random_streams import RandomStreams, States
from engine.training.errors import CheckpointMisfit

VARIABLES = "state"
"""Prefix of TensorFlow's files."""


METRICS = "metrics.npz"
"""What Keras' metrics have counted in an epoch that has begun."""


class RandomState(msgspec.Struct, frozen=True):
    """The state of every random generator of one rank."""

    python: tuple[int, tuple[int, ...], float | None]
    numpy: tuple[str, tuple[int, ...], int, int, float]
    keras: States


def save(
    folder: Path,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    more: Sequence[tf.Variable] = (),
) -> None:
    """Write the variables of model and optimizer, and `more`; only rank 0 calls it."""
    _variables(model, optimizer, more).write(str(folder / VARIABLES))


def restore(
    folder: Path,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    more: Sequence[tf.Variable] = (),
) -> None:
    """Load the variables, in place, from a `folder` of `save`; all ranks must call it.

    `optimizer` must be built. Raises CheckpointMisfit when model or optimizer do not fit.
    """
    try:
        _variables(model, optimizer, more).read(str(folder / VARIABLES)).assert_consumed()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        cause = str(error).strip().split("\n")[0].rstrip(".")
        raise CheckpointMisfit(
            f"The checkpoint {folder.name} does not fit this model and optimizer: {cause}. "
            "Resume with the recipe and settings that it was saved with."
        ) from error


def save_metrics(folder: Path, state: Sequence[npt.NDArray[Any]]) -> None:
    """Write the state of the metrics, if there are any; only rank 0 calls it."""
    if state:
        with (folder / METRICS).open("wb") as file:
            np.savez(file, *state)


def restore_metrics(folder: Path) -> list[npt.NDArray[Any]]:
    """Return what `save_metrics` has written; empty if it has written nothing."""
    path = folder / METRICS
    if not path.exists():
        return []
    try:
        with np.load(path, allow_pickle=False) as saved:
            return [saved[name] for name in saved.files]
    except (OSError, ValueError, BadZipFile) as error:
        raise CheckpointMisfit(
            f"{path.name} in the checkpoint {folder.name} is not what Traindeck saves: {error}. "
            "Resume from another checkpoint."
        ) from error


def save_rank_state(folder: Path, rank: int, streams: RandomStreams) -> None:
    """Write the random state of this rank; every rank must call it."""
    version, words, gauss = random.getstate()
    numpy_state: tuple[Any, ...] = np.random.get_state(legacy=True)  # type: ignore[assignment]
    name, keys, position, has_gauss, cached = numpy_state
    state = RandomState(
        python=(version, words, gauss),
        numpy=(str(name), tuple(keys.tolist()), int(position), int(has_gauss), float(cached)),
        keras=streams.states(),
    )
    _rank_file(folder, rank).write_bytes(msgspec.json.encode(state))


def restore_rank_state(folder: Path, rank: int, streams: RandomStreams) -> None:
    """Restore the random state of this rank, or reseed if the checkpoint lacks this rank.

    Every rank must call it. Raises CheckpointMisfit when `save_rank_state` did not write the file.
    """
    streams.reseed()
    path = _rank_file(folder, rank)
    if not path.exists():
        return
    try:
        state = msgspec.json.decode(path.read_bytes(), type=RandomState)
    except ValueError as error:
        raise CheckpointMisfit(
            f"{path.name} in the checkpoint {folder.name} is not what Traindeck saves: {error}. "
            "Resume from another checkpoint."
        ) from error
    random.setstate(state.python)
    name, keys, position, has_gauss, cached = state.numpy
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))
    streams.restore(state.keras)


def _rank_file(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.json"


def _variables(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, more: Sequence[tf.Variable]
) -> tf.train.Checkpoint:
    added = {"more": list(more)} if more else {}
    return tf.train.Checkpoint(
        variables=list(model.variables), optimizer=list(optimizer.variables), **added
    )
