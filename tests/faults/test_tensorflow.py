"""A cluster of TensorFlow workers: after a kill it is restarted, and a hang is reported."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import Restarting, Rewound, Trouble
from tests.support.runs import (
    curve,
    events,
    failure_of,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)
from tests.support.sentences import sentence

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.nightly,
    pytest.mark.skipif(os.name != "posix", reason="it kills with SIGKILL"),
]

HANGS_WHEN_RESUMED = """
import os, threading
import keras
import numpy as np
import tensorflow as tf

steps = 0

def model():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])

def datasets():
    pairs = np.ones((6400, 4), np.float32), np.ones((6400, 1), np.float32)
    return pairs, (pairs[0][:64], pairs[1][:64])

def loss(outputs, targets):
    tf.py_function(prepare, [], [])
    return keras.ops.mean((outputs - targets) ** 2, axis=-1)

def prepare():
    global steps
    steps += 1
    last = int(os.environ["WORLD_SIZE"]) - 1
    if os.environ.get("TRAINDECK_RESUME") and steps == 12 and int(os.environ["RANK"]) == last:
        threading.Event().wait()  # for ever
"""
LIMIT = 0.1
"""Minutes; the workers of a busy machine do several steps in that."""


def test_a_killed_worker_is_restarted_and_one_that_hangs_is_named(tmp_path: Path) -> None:
    recipe = tmp_path / "hangs.py"
    recipe.write_text(HANGS_WHEN_RESUMED)
    line = 1 + HANGS_WHEN_RESUMED.split("# for ever")[0].count("\n")
    run_id = client.start(
        spec(
            str(recipe),
            "tf/multi_worker",
            2,
            epochs=1_000_000,
            batch_size=64,
            learning_rate=0.01,
            checkpoint_steps=5,
            hang_minutes=LIMIT,
            max_restarts=1,
        )
    )
    before = wait_for(run_id, lambda info: info.status.checkpoint_step > 0 and is_training(info))
    os.kill(before.status.worker_pids[1], signal.SIGKILL)
    restarting = wait_for_event(run_id, Restarting)
    assert (restarting.failure.rank, restarting.failure.device) == (1, "cpu:1")
    assert restarting.failure.signal == "SIGKILL"
    rewound = wait_for_event(run_id, Rewound)
    assert rewound.step >= before.status.checkpoint_step > 0

    trouble = wait_for_event(run_id, Trouble)
    place = f"Rank 1 on cpu:1 is in prepare (hangs.py:{line}), there in wait (threading.py:"
    assert place in trouble.text
    assert "Rank 0 on cpu:0 is in " in trouble.text  # in a collective
    assert "prepare" not in trouble.text.partition("Rank 1")[0]
    info = wait_for_end(run_id)
    failure = failure_of(info)
    assert (failure.rank, failure.where) == (1, f"{recipe}:{line}")
    assert failure.message.startswith(f"The training hangs: {place}")
    assert [type(e) for e in events(info) if isinstance(e, Restarting)] == [Restarting]
    steps = curve(info, "train/loss")[0]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > rewound.step, "it continued from the checkpoint"
    assert sentence("it-was-restarted-once-already") in info.reason


def test_a_killed_supervisor_costs_a_cluster_no_step() -> None:
    run_id = client.start(spec("digits_keras", "tf/parameter_server", 2, epochs=1_000_000))
    info = wait_for(run_id, is_training)
    os.kill(info.status.supervisor_pid, signal.SIGKILL)
    wait_until_gone(info)
    client.resume(run_id)
    again = wait_for(run_id, lambda info: info.status.attempt == 2 and is_training(info))
    assert again.status.checkpoint_step >= info.status.step
    client.send(run_id, Stop(now=True))
    info = wait_for_end(run_id)
    steps = curve(info, "train/loss")[0]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > again.status.checkpoint_step
