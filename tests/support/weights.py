"""The whole tensors of a checkpoint, of both frameworks and any number of ranks.

Also the program that reads those of TensorFlow.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.programs import Program

Array = npt.NDArray[np.float64]


def read_tensors(checkpoint: Path) -> dict[str, Array]:
    """Return weights and optimizer state by name, without the states of random streams."""
    if (checkpoint / "tensors").is_dir():
        return _of_torch(checkpoint)
    return _of_tensorflow(checkpoint)


def largest_difference(left: Path, right: Path) -> float:
    """Return the largest difference between two checkpoints of the same model and optimizer."""
    ours, theirs = read_tensors(left), read_tensors(right)
    assert ours.keys() == theirs.keys()
    return max(float(np.abs(ours[name] - theirs[name]).max()) for name in ours)


def _of_torch(checkpoint: Path) -> dict[str, Array]:
    import torch
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(checkpoint / "tensors"))
    described = reader.read_metadata().state_dict_metadata
    tensors: dict[str, Any] = {
        name: torch.empty(of.size, dtype=of.properties.dtype)  # type: ignore[union-attr]
        for name, of in described.items()
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable")
        load(tensors, storage_reader=reader, no_dist=True)
    return {name: tensor.double().numpy() for name, tensor in tensors.items()}


def _of_tensorflow(checkpoint: Path) -> dict[str, Array]:
    """Let a process read it that has imported TensorFlow: this one would take seconds for that."""
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "tensors.npz", Path(folder) / "log"
        program = Program("tensorflow", __name__, str(checkpoint), str(file), log=log, variables={})
        try:
            program.output()
        finally:
            program.kill()
        with np.load(file) as tensors:
            return dict(tensors)


def _write_tensors(checkpoint: Path, file: Path) -> None:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(checkpoint / "state"))
    shapes = reader.get_variable_to_shape_map()
    values = {name: reader.get_tensor(name) for name in shapes if "VARIABLE_VALUE" in name}
    tensors = {
        name: value.astype(np.float64)
        for name, value in values.items()
        if value.dtype != np.int32 or value.shape != (2,)
    }
    np.savez(file, **tensors)


if __name__ == "__main__":
    _write_tensors(*map(Path, sys.argv[1:]))
