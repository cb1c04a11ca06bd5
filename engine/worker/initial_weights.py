"""The weights that a Keras model begins with, shared by runs under different frameworks.

Each backend of Keras draws other numbers from one seed. So the first of two twin runs writes what
it has drawn, and the other one begins with that. The file is NumPy's `.npz`, with an array for each
weight by the path of its variable. Reading never runs code.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from engine.files.atomic_file import write_atomically
from engine.training.errors import TrainingFailed
from engine.worker import environment
from engine.worker.session import WorkerSession

Weights = Mapping[str, npt.NDArray[Any]]


def share_initial_weights(model: Any, session: WorkerSession) -> None:
    """Do what `RunSpec.initial_weights` asks for with `model`, a built Keras model, in place.

    Every rank calls it before the first step. Raises TrainingFailed if the file is not there, or
    does not fit the model, with names.
    """
    spec = session.spec
    if not spec.initial_weights or os.environ.get(environment.RESUME):
        return  # a checkpoint holds the weights
    file = session.folder / spec.initial_weights
    is_own = not Path(spec.initial_weights).is_absolute()
    if is_own and not file.exists():  # all ranks have drawn the same ones
        if session.rank == 0:
            _write(file, model)
        return
    _assign(model, _read(file), file)


def _named(model: Any) -> dict[str, Any]:
    """Return the weights by path; Keras allows two layers with the same name."""
    found: dict[str, Any] = {}
    for weight in model.weights:
        name = str(weight.path)
        while name in found:
            name += "_"
        found[name] = weight
    return found


def _write(file: Path, model: Any) -> None:
    arrays = {name: _portable(weight.numpy()) for name, weight in _named(model).items()}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # its other argument is no name of a weight
    write_atomically(file, buffer.getvalue(), mode=0o600, sync=True)


def _portable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what every NumPy reads: bfloat16 is a type of another package."""
    return array if array.dtype.isbuiltin else array.astype(np.float32)


def _read(file: Path) -> Weights:
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise TrainingFailed(
            f"The initial weights {file} are not there (any more): the twin run that has written "
            "them was perhaps deleted. Start both again with `twin`."
        ) from None
    except (OSError, ValueError, TypeError, EOFError, BadZipFile) as error:  # one array: TypeError
        raise TrainingFailed(f"The initial weights {file} cannot be read: {error}.") from error


def _assign(model: Any, stored: Weights, file: Path) -> None:
    weights = _named(model)
    wrong = [f"{name} is missing" for name in weights.keys() - stored.keys()]
    wrong += [f"{name} is no weight of it" for name in stored.keys() - weights.keys()]
    wrong += [
        f"{name} has the shape {tuple(weight.shape)}, and not {stored[name].shape}"
        for name, weight in weights.items()
        if name in stored and tuple(weight.shape) != stored[name].shape
    ]
    if wrong:
        more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise TrainingFailed(
            f"The initial weights {file} do not fit this model: {'; '.join(sorted(wrong)[:5])}"
            f"{more}. Both runs need the same recipe and settings."
        )
    for name, weight in weights.items():
        weight.assign(stored[name])
