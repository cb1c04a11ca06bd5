"""A worker that draws random numbers without a seed: `python -m tests.support.random_probe KIND`.

It prints them as JSON, in the last line of its output.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import random
import secrets
import sys
import tempfile
import uuid
from typing import Any


def draws(kind: str) -> dict[str, Any]:
    """What a worker of this kind of template draws, by the name of the generator."""
    import numpy as np

    drawn: dict[str, Any] = {
        "random": random.random(),
        "random.Random": random.Random().random(),
        "numpy.random": np.random.random(),
        "numpy.random.RandomState": np.random.RandomState().random_sample(),
        "numpy.random.default_rng": np.random.default_rng().random(),
        "uuid.uuid1": str(uuid.uuid1()),
        "uuid.uuid4": str(uuid.uuid4()),
        "secrets": secrets.token_hex(),
        "os.urandom": os.urandom(8).hex(),
        "tempfile": tempfile.mktemp(),
        "multiprocessing": multiprocessing.current_process().authkey.hex(),
    }
    if kind != "tensorflow":
        torch = importlib.import_module("torch")
        drawn["torch"] = torch.rand(1, dtype=torch.float64).item()
        drawn["torch.initial_seed"] = torch.initial_seed()
        drawn["torch.Generator.seed"] = torch.Generator().seed()
        drawn["torch.randperm"] = torch.randperm(1000).tolist()
    else:
        tf = importlib.import_module("tensorflow")
        generator = tf.random.Generator.from_non_deterministic_state()
        drawn["tf.random"] = float(tf.random.uniform([], dtype=tf.float64))
        drawn["tf.random.Generator"] = float(generator.uniform([], dtype=tf.float64))
        drawn["tf.random.shuffle"] = tf.random.shuffle(tf.range(1000)).numpy().tolist()
        shuffled = tf.data.Dataset.range(1000).shuffle(1000)
        drawn["tf.data"] = [int(number) for number in shuffled]
    if kind != "torch":
        keras = importlib.import_module("keras")
        drawn["keras.random"] = np.asarray(keras.random.uniform([4])).tolist()
        drawn["keras.random.SeedGenerator"] = np.asarray(
            keras.random.SeedGenerator().next()
        ).tolist()
        layer = keras.layers.Dense(3)
        layer.build([None, 2])
        drawn["keras.layers"] = np.asarray(layer.kernel).tolist()
        drawn["keras.initializers"] = np.asarray(keras.initializers.RandomNormal()([4])).tolist()
    return drawn


if __name__ == "__main__":
    print(json.dumps(draws(sys.argv[1])))
