"""Shared by the contract suites: recipe, devices, runs and reference of each strategy."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine import client
from engine.client import RunInfo
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import CacheEmptied, Paused, Resumed
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import checkpoints
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from tests.support.runs import (
    curve,
    events,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)
from tests.support.trained_runs import finish, own_copy, trained
from tests.support.weights import largest_difference

PROBE = {"torch": "probe_torch", "keras": "probe_keras"}
REFERENCE = {
    ("torch", "torch"): "torch/single",
    ("torch", "keras"): "torch/keras_ddp",
    ("tf", "keras"): "tf/single",
}
"""What a strategy must equal on one device, by its framework and the recipe's."""

STEPS = 20
"""Steps of a short run: 97 samples in batches of 32, so 4 per epoch, the last of one."""

LONG = 1_000_000
"""Epochs of a run that ends only by a command."""

DEMANDING: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "weight_decay": 0.1,
    "schedule": "cosine",
    "warmup_steps": 3,
    "clip_norm": 0.5,
}
"""Options that go wrong as soon as one rank's gradients differ."""

COLD = ("tf/single",)
"""Strategies of which one run imports its framework, and must train like one that was forked.

PyTorch does so in `tests/faults/test_templates.py`.
"""

AS_ANOTHER = ("tf/central_storage", "tf/mirrored_fit", "tf/multi_worker")
"""Strategies that sum, save and restore with the code of another one; `plain` compares them all."""


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


def plain(strategy: Strategy, devices: int | None = None) -> RunInfo:
    """A run without options that has honoured every command, with a checkpoint after 20 steps."""
    often = {"checkpoint_epochs": 5, "keep_checkpoints": LONG}
    return trained(probe(strategy, devices, epochs=LONG, **often), obey_commands)


def accumulated(strategy: Strategy) -> RunInfo:
    """A run that computes each batch in parts, with a checkpoint in the middle of an epoch."""
    changes = DEMANDING | {"accumulation": 3, "checkpoint_steps": STEPS // 2}
    return trained(probe(strategy, cold_start=strategy.name in COLD, **changes))


def obey_commands(run_id: str) -> None:
    """Every command, and the run stops. What each has caused is recorded."""
    info = wait_for(run_id, lambda info: info.status.checkpoint_step >= STEPS)
    client.send(run_id, SaveCheckpoint())
    wait_for(run_id, lambda info: bool(requested_checkpoints(info)))
    seq = client.send(run_id, EmptyCache())
    wait_for(run_id, lambda info: emptied_devices(info, seq) == {*info.spec.devices})
    with pytest.raises(client.CommandFailed, match="CPU"):
        client.send(run_id, Pause(free_devices=True))
    paused = wait_for_event(run_id, Paused, client.send(run_id, Pause()))
    info = wait_for(run_id, lambda info: info.state is RunState.PAUSED)
    assert info.status.step == paused.step
    wait_for_event(run_id, Resumed, client.send(run_id, Resume()))
    client.send(run_id, Stop())
    wait_for_end(run_id)


def emptied_devices(info: RunInfo, after: int = 0) -> set[str]:
    """The devices whose cache was emptied."""
    return {event.device for event in events(info, after) if isinstance(event, CacheEmptied)}


def requested_checkpoints(info: RunInfo) -> list[Path]:
    """The folders of the checkpoints that a command asked for."""
    found = checkpoints(info.folder)
    return [each.folder for each in found if "request" in each.manifest.kinds]


def interrupted(wanted: RunSpec) -> RunInfo:
    """A run that saves a checkpoint after 20 steps, holds there, and whose processes are killed."""
    held = {"hold": True, "saved": STEPS // wanted.checkpoint_steps}
    return trained(replace(wanted, settings=wanted.settings | held), kill_when_held)


def kill_when_held(run_id: str, step: int = STEPS) -> None:
    """Kill all processes of a run of a recipe that holds after its checkpoint."""
    info = wait_for(run_id, lambda now: now.status.checkpoint_step == step)
    for pid in (info.status.supervisor_pid, *info.status.worker_pids):
        with contextlib.suppress(ProcessLookupError):  # workers end when their supervisor is gone
            os.kill(pid, signal.SIGKILL)
    wait_until_gone(info)
    assert client.get_run(run_id).state is RunState.INTERRUPTED


def went_on(info: RunInfo, step: int = STEPS // 2, **changes: Any) -> RunInfo:
    """A copy of a run that has gone on from a checkpoint of it to its end, with these changes."""
    copy = own_copy(info)
    checkpoint = checkpoint_files.folders(copy.folder)[step]
    client.resume(copy.id, checkpoint, replace(copy.spec, **changes) if changes else None)
    finish(copy.id)
    return client.get_run(copy.id)


def last_checkpoint(info: RunInfo) -> Path:
    """The folder of the newest checkpoint of a run."""
    return checkpoints(info.folder)[-1].folder


def validation(info: RunInfo, step: int = 0) -> dict[str, float]:
    """The metrics of the validation after `step`; 0: of the last one."""
    names = [name for name in info.status.metrics if name.startswith("validation/")]
    if not step:
        return {name: info.status.metrics[name] for name in names}
    return {name: dict(zip(*curve(info, name), strict=True))[step] for name in names}


def assert_alike(
    ours: RunInfo,
    theirs: RunInfo,
    series: Iterable[str] = ("train/loss",),
    tolerance: float = 1e-5,
) -> None:
    """Both have trained alike for 20 steps, at whose end they validate and save a checkpoint."""
    for name in series:
        (steps, values), (_, expected) = (curve(info, name) for info in (ours, theirs))
        assert steps[:STEPS] == list(range(1, STEPS + 1))
        assert values[:STEPS] == pytest.approx(expected[:STEPS], rel=0, abs=tolerance)
    ours_then, theirs_then = (validation(info, STEPS) for info in (ours, theirs))
    assert ours_then == pytest.approx(theirs_then, rel=0, abs=tolerance)
    left, right = (checkpoint_files.folders(info.folder)[STEPS] for info in (ours, theirs))
    assert largest_difference(left, right) <= tolerance
