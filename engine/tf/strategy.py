"""What every TensorFlow strategy does in its worker."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from engine.strategy import Strategy, WorkerPlan, one_process


class TfStrategy(Strategy):
    """A strategy whose worker runs TensorFlow: one process for all devices."""

    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"keras"})
    refusals = dict.fromkeys(
        ("optimizer", "momentum", "weight_decay", "schedule", "warmup_steps", "clip_norm"),
        "Under TensorFlow the recipe's optimizer() decides this.",
    ) | dict.fromkeys(
        (
            "accumulation",
            "precision",
            "compile",
            "loader_workers",
            "backend",
            "workers_per_device",
            "microbatches",
            "gradient_norm",
            "deterministic",
        ),
        "Only the PyTorch strategies offer this.",
    )

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process(devices)

    @abstractmethod
    def build(self, devices: Sequence[str]) -> Any:
        """The `tf.distribute.Strategy` over `devices`, by TensorFlow's names (`CPU:0`, `GPU:1`)."""
