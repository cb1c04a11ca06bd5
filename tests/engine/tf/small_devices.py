"""What TensorFlow's GPUs would do, on logical CPUs: placement, memory, errors, and a cluster."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf

from engine.spec.run_spec import RunSpec
from engine.tf import devices
from engine.training.errors import TrainingFailed
from tests.engine.tf.parallelism.small_runs import dense, made, recipe

TYPES = ("T", "Tindices")
OF_INDICES = ("StridedSlice", "GatherV2", "Range")
OOM = (
    "Graph execution error: OOM when allocating tensor with shape[4096,4096] and type float on"
    " /job:localhost/replica:0/task:0/device:GPU:{} by allocator GPU_{}_bfc [Op:__inference_run]"
)
GPUS = ("GPU-a", "GPU-b")


def placement() -> dict[str, list[str]]:
    """By device: the operations of a step under tf/mirrored on indices (int64), and the others.

    GPUs have no operations on int32: those are on the host without being told.
    """
    trainer = made("tf/mirrored", recipe(dense(4), dense(3)))
    reader: Any = trainer._loop._train  # type: ignore[attr-defined]
    graph = reader._run.get_concrete_function().graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    found: dict[str, list[str]] = {}
    for node in (node for nodes in bodies for node in nodes):
        is_int64 = any(node.attr[name].type == tf.int64.as_datatype_enum for name in TYPES)
        is_index = is_int64 and node.op in OF_INDICES
        of = "index" if is_index else "other"
        found.setdefault(f"{of} {node.device[-5:]}", []).append(node.op)
    return found


def errors() -> dict[str, str]:
    """What is said of a full device, and of a GPU that is not there."""
    said = {}
    for number in (0, 1, 7):
        try:
            with devices.explain_out_of_memory(GPUS, 8, 2):
                text = OOM.format(number, number)
                raise tf.errors.ResourceExhaustedError(None, None, text)
        except TrainingFailed as error:
            said[str(number)] = str(error)
    try:
        devices.configure(GPUS)
    except TrainingFailed as error:
        said["missing"] = str(error)
    return said


def tf32() -> dict[str, bool]:
    """Whether TensorFlow may compute in TF32, by the precision of a run."""
    found: dict[str, bool] = {}
    precisions: tuple[Literal["default", "fp32", "tf32"], ...] = ("default", "fp32", "tf32")
    for precision in precisions:
        tf.config.experimental.enable_tensor_float_32_execution(True)  # as it is by itself
        spec = RunSpec(recipe="r", strategy="tf/single", devices=(), precision=precision)
        devices.set_numerics(spec)
        found[precision] = tf.config.experimental.tensor_float_32_execution_enabled()
    return found


def cluster() -> dict[str, Any]:
    """The memory of a process that has joined a cluster, whose devices TensorFlow lists too."""
    with socket.socket() as first, socket.socket() as second:
        for holder in (first, second):
            holder.bind(("127.0.0.1", 0))
        ports = [holder.getsockname()[1] for holder in (first, second)]
    spec = tf.train.ClusterSpec({"worker": [f"localhost:{port}" for port in ports]})
    asked: list[str] = []

    def memory_info(device: str) -> dict[str, int]:
        """Answer for every processor: TensorFlow itself knows it on some models only."""
        asked.append(device)
        return {"current": 8}

    tf.config.experimental.get_memory_info = memory_info
    server = tf.distribute.Server(spec, "worker", 1)
    tf.config.experimental_connect_to_cluster(spec, job_name="worker", task_index=0)
    listed = len(tf.config.list_logical_devices("CPU"))
    found = {
        "listed": listed,
        "own": devices.own_devices("CPU"),
        "joined": devices.memory_metrics("CPU"),
        "asked": asked,
        "without": sorted(devices.memory_metrics("GPU")),
    }
    del server
    return found


def main() -> None:
    """Write everything to the file that the argument names."""
    wanted = (placement, errors, tf32, cluster)  # a cluster can be left no more
    found = {function.__name__: function() for function in wanted}
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
