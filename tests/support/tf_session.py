"""A worker's session as TensorFlow's trainer sees it, without a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from engine.spec.run_spec import RunSpec
from engine.spec.strategy import WorkerPlan


class TfSession:
    """The parts of a worker's session that a trainer uses."""

    rank, world_size = 0, 1
    connecting = contextlib.nullcontext

    def __init__(self, spec: RunSpec, recipe: SimpleNamespace) -> None:
        self.spec = spec
        self.asked_accumulation = spec.accumulation
        self.devices = self.machine_devices = spec.slots
        self.plan = WorkerPlan(0, spec.slots)
        self.load_recipe = lambda: recipe
        self.recipe = SimpleNamespace(learning_rate=spec.learning_rate)
        self.said: list[str] = []
        self.prefixes: list[str] = []
        self.add_validation_sets = self.prefixes.extend

    def emit(self, event: Any) -> None:
        """Keep what a notice says."""
        self.said.append(event.text)

    def settings_for(self, function: Callable[..., Any]) -> dict[str, Any]:
        """None."""
        return {}
