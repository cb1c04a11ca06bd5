"""Small models with overflows, NaN or half precision, for `small_trainers.py`."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from engine.runs.checkpoints.checkpoint_files import Position
from tests.engine.tf.parallelism.small_runs import (
    copies,
    data,
    dense,
    difference,
    made,
    recipe,
    trained,
    weights,
)


def overflow() -> dict[str, Any]:
    """float16 that overflows on one replica only, in one step of an epoch."""
    (inputs, targets), _ = data()
    inputs = inputs.copy()
    inputs[0] = 60000.0
    given = recipe(dense(3), datasets=lambda: ((inputs, targets), (inputs, targets)))
    one = made("tf/mirrored", given, precision="fp16", gradient_norm=True)
    scale = float(one._replica.optimizer.dynamic_scale.numpy())
    norms = one.run_steps(Position(), 4).read()["gradient_norm"]
    kernel = one._replica.variables[0]
    return {
        "scales": [scale, float(one._replica.optimizer.dynamic_scale.numpy())],
        "skipped": sum(not np.isfinite(norm) for norm in norms),
        "updates": int(one._replica.optimizer.iterations.numpy()),
        "finite": bool(np.isfinite(copies(kernel)).all()),
        "apart": difference(copies(kernel)[:1], copies(kernel)[1:]),
    }


def left_out() -> dict[str, Any]:
    """Losses and changes of the weights, in steps of which the first has a NaN."""
    (inputs, targets), validation = data()
    inputs = inputs.copy()
    inputs[0] = math.nan
    given = recipe(
        dense(8),
        keras.layers.BatchNormalization,
        dense(3),
        datasets=lambda: ((inputs, targets), validation),
    )
    found = {}
    for kind in ("tf/single", "tf/mirrored", "tf/central_storage"):
        for precision in ("fp32", "fp16"):
            one = made(kind, given, on_nan="skip", optimizer="adamw", precision=precision)
            steps = []
            for batch in range(3):
                before = weights(one)
                [loss] = one.run_steps(Position(0, batch, batch), 1).read()["loss"]
                steps.append([math.isfinite(loss), difference(before, weights(one))])
            found[f"{kind}, {precision}"] = steps
    return found


def half_precision() -> dict[str, float]:
    """Differences from float32 of the same training."""
    given = recipe(dense(3))
    full = trained("tf/single", given, clip_norm=0.5)
    halves = {name: {"clip_norm": 0.5, "precision": name} for name in ("bf16", "fp16")}
    return {
        name: difference(trained("tf/mirrored", given, **options), full)
        for name, options in halves.items()
    }
