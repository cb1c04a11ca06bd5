"""Shared by the contract suites: recipe, devices and reference of each strategy."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.client import RunInfo
from engine.runs.checkpoint_files import checkpoints
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from tests.support.runs import curve, logs, spec, train, wait_for, wait_until_gone

PROBE = {"torch": "probe_torch", "keras": "probe_keras"}
REFERENCE = {
    ("torch", "torch"): "torch/single",
    ("torch", "keras"): "torch/keras_ddp",
    ("tf", "keras"): "tf/single",
}
"""What a strategy must equal on one device, by its framework and the recipe's."""

STEPS = list(range(1, 21))
"""The steps of a short run: 97 samples in batches of 32, so 4 per epoch, the last of one."""


def recipe_framework(strategy: Strategy) -> str:
    return min(strategy.recipe_frameworks)


def devices_for(strategy: Strategy) -> int:
    """Return 2 if the strategy can use two CPU devices, else 1."""
    return 1 if strategy.problems(("cpu:0", "cpu:1")) else 2


def offers(strategy: Strategy, field: str) -> bool:
    """Return whether the strategy allows changing a field of a spec from its default."""
    return not strategy.refusal(field, probe(strategy))


def reference_for(strategy: Strategy) -> Strategy:
    return catalog.strategy(REFERENCE[strategy.framework, recipe_framework(strategy)])


def probe(strategy: Strategy, devices: int | None = None, **changes: Any) -> RunSpec:
    """A short run of the probe recipe."""
    recipe = PROBE[recipe_framework(strategy)]
    wanted: dict[str, Any] = {"epochs": 5, "learning_rate": 0.05} | changes
    return spec(recipe, strategy.name, devices or devices_for(strategy), **wanted)


class TrainedRuns:
    """Trains each spec once, for any number of tests."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._done: dict[str, RunInfo] = {}

    def __getitem__(self, wanted: RunSpec) -> RunInfo:
        key = repr(wanted)
        if key not in self._done:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TRAINDECK_HOME", str(self._home))
                info = train(wanted)
            assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
            assert curve(info, "train/loss")[0] == STEPS
            self._done[key] = info
        return self._done[key]


def killed_after_checkpoint(wanted: RunSpec, step: int) -> RunInfo:
    """A run of a recipe that holds, whose processes were all killed after its checkpoint."""
    run_id = client.start(wanted)
    info = wait_for(run_id, lambda now: now.status.checkpoint_step == step)
    for pid in (info.status.supervisor_pid, *info.status.worker_pids):
        with contextlib.suppress(ProcessLookupError):  # workers end when their supervisor is gone
            os.kill(pid, signal.SIGKILL)
    wait_until_gone(info)
    interrupted = client.get_run(run_id)
    assert interrupted.state is RunState.INTERRUPTED
    return interrupted


def last_checkpoint(info: RunInfo) -> Path:
    """The folder of the newest checkpoint of a run."""
    return checkpoints(info.folder)[-1].folder


def validation(info: RunInfo) -> dict[str, float]:
    """The metrics of the last validation."""
    return {k: v for k, v in info.status.metrics.items() if k.startswith("validation/")}
