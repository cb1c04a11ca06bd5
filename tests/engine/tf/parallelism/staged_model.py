"""Computes the results for `test_model_parallel`, in one process:
`python -m tests.engine.tf.parallelism.staged_model FILE`.

Writes JSON: a staged model on two logical CPU devices beside the same model whole.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from engine.tf.devices import configure
from engine.tf.parallelism.model_parallel import PlacementStrategy, StagedModel, place_model
from engine.tf.parallelism.stages import SequentialStage, cut_model
from engine.training.stage_partition import CannotPartition

DEVICES = configure(("cpu:0", "cpu:1"))
BIG_OPERATIONS = ("MatMul", "BiasAdd", "BiasAddGrad", "Sqrt", "AssignAddVariableOp")


def sequential() -> keras.Model:
    """A model with everything that may go wrong: dropout, statistics, regularisation, masks."""
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            keras.layers.Embedding(9, 4, mask_zero=True),
            keras.layers.Dense(4),
            keras.Sequential(
                [keras.layers.Dropout(0.2), keras.layers.LSTM(5, kernel_regularizer="l2")]
            ),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(7, activation="tanh", kernel_regularizer="l2"),
            keras.layers.Dense(3, name="last"),
        ]
    )


def mean_square(outputs: tf.Tensor) -> tf.Tensor:
    """A loss without targets."""
    return tf.reduce_mean(outputs**2)


def staged_against_whole(strategy: PlacementStrategy) -> dict[str, Any]:
    """The devices of variables and operations, and the largest differences after some steps.

    The optimizer is AdamW. Loss scale and regularisation are powers of two: nothing is rounded.
    """
    made: list[keras.Model] = []

    def make() -> keras.Model:
        made.append(sequential())
        return made[-1]

    with strategy.scope():
        staged = place_model(make, None, DEVICES)
        optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
        optimizer.build(staged.trainable_variables)
    whole = made[0]
    alone = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    alone.build(whole.trainable_variables)

    @tf.function
    def step(inputs: tf.Tensor) -> tf.Tensor:
        loss, gradients = strategy.run(
            lambda x: staged.gradients(
                x,
                lambda outputs: (mean_square(outputs)[None], mean_square(outputs)),
                penalty_factor=tf.constant(0.5),
                shows_penalties=False,
                scale=lambda value: 4.0 * value,
            ),
            args=(inputs,),
        )
        optimizer.apply([gradient / 4.0 for gradient in gradients], staged.trainable_variables)
        return loss[0]

    @tf.function
    def step_alone(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_square(whole(inputs, training=True))
            total = loss + 0.5 * tf.add_n(whole.losses)
        gradients = tape.gradient(total, whole.trainable_variables)
        # Keras' Adam is wrong for the sparse gradient of an embedding with repeated indices.
        alone.apply([tf.convert_to_tensor(g) for g in gradients], whole.trainable_variables)
        return loss

    differences = []
    for number in range(4):
        tokens = tf.constant(np.random.RandomState(number).randint(0, 9, (8, 6)), tf.int32)
        differences.append(abs(float(step(tokens)) - float(step_alone(tokens))))
    differences += [
        float(np.abs(ours.numpy() - theirs.numpy()).max())
        for ours, theirs in zip(staged.variables, whole.variables, strict=True)
    ]
    outputs = [np.asarray(model(tokens, training=False)) for model in (staged, whole)]
    differences.append(float(np.abs(outputs[0] - outputs[1]).max()))
    graph = step.get_concrete_function(tokens).graph
    return {
        "difference": max(differences),
        "variables": [device(variable) for variable in staged.variables],
        "slots": [device(variable) for variable in optimizer.variables[2:]],  # not its counters
        "trainable": [device(variable) for variable in staged.trainable_variables],
        "operations": [
            [operation.name, operation.device[-5:]]
            for operation in graph.get_operations()
            if operation.type in BIG_OPERATIONS
        ],
    }


def device(variable: keras.Variable) -> str:
    """The end of the device's name, such as `CPU:1`."""
    return str(variable.value.device[-5:])


def sizes_of_stages() -> list[list[int]]:
    """Parameters of the stages of a chain, by the number of stages."""
    model = keras.Sequential(
        [keras.Input((8,)), *(keras.layers.Dense(n, use_bias=False) for n in (8, 8, 16, 4, 4))]
    )
    return [[s.count_params() for s in cut_model(model, count, None)] for count in (1, 2, 3)]


def refusals() -> dict[str, str]:
    """The messages, by mistake."""
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4), keras.layers.ReLU(), keras.layers.Dense(2)]
    )
    first, activation, second = model.layers
    functional = keras.Model(model.inputs, model.outputs)
    cuts: dict[str, Callable[[], Any]] = {
        "functional": lambda: cut_model(functional, 2, None),
        "few layers": lambda: cut_model(model, 3, None),
        "not a list": lambda: cut_model(model, 2, lambda model, count: model),
        "shared": lambda: cut_model(model, 2, lambda m, c: [SequentialStage([first]), model]),
        "foreign": lambda: cut_model(model, 2, lambda m, c: [first, three_layers]),
        "nothing to train": lambda: cut_model(
            model, 2, lambda m, c: [activation, SequentialStage([first, second])]
        ),
        "not all": lambda: cut_model(three_layers, 2, lambda m, c: m.layers[:2]),
    }
    three_layers = keras.Sequential([keras.Input((4,)), *(keras.layers.Dense(2) for _ in range(3))])
    said = {}
    for name, make in cuts.items():
        try:
            make()
            said[name] = ""
        except CannotPartition as error:
            said[name] = str(error)
    return said


def recipes_own_stages(strategy: PlacementStrategy) -> list[list[str]]:
    """Devices of the variables of a functional model that the recipe cuts."""

    def make() -> keras.Model:
        inputs = keras.Input((4,))
        hidden = keras.layers.Dense(4, name="hidden")(inputs)
        outputs = keras.layers.Dense(2)(keras.layers.Add()([hidden, inputs]))
        return keras.Model(inputs, outputs)

    def stages(model: keras.Model, count: int) -> list[keras.Model]:
        middle = model.layers[2].output
        return [keras.Model(model.inputs, middle), keras.Model(middle, model.outputs)]

    with strategy.scope():
        staged: StagedModel = place_model(make, stages, DEVICES)
    return [[variable.path.split("/")[-2], device(variable)] for variable in staged.variables]


def main() -> None:
    """Write all results."""
    strategy = PlacementStrategy(DEVICES)
    found = {
        "staged": staged_against_whole(strategy),
        "sizes": sizes_of_stages(),
        "refusals": refusals(),
        "own": recipes_own_stages(strategy),
    }
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
