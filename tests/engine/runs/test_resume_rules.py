"""Which settings may change when a run resumes, and the reasons for those that may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.runs.checkpoints.checkpoint_files import Manifest, Position
from engine.runs.resume_rules import change_problems, fixed
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import FIELDS, RunSpec
from tests.support.sentences import sentence

MANIFEST = Manifest(
    position=Position(epoch=2, batch=3, step=11),
    strategy="torch/ddp",
    replicas=2,
    batch_size=32,
    parameters=10,
    saved=1.0,
    files={},
)
SPEC = RunSpec(
    recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"), batch_size=32, epochs=5
)


def run(state: RunState = RunState.STOPPED, **changes: Any) -> RunInfo:
    """What is known of the run."""
    return RunInfo("1", Path("1"), replace(SPEC, **changes), RunStatus(), state, "")


def problems(info: RunInfo, manifest: Manifest = MANIFEST, **changes: Any) -> dict[str, str]:
    found = change_problems(info, replace(info.spec, **changes), manifest)
    return {problem.field: problem.text for problem in found}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"strategy": "torch/fsdp", "devices": ("cpu:0",)},
        {"learning_rate": 1e-5, "schedule": "cosine", "warmup_steps": 9, "clip_norm": 1.0},
        {"epochs": 9},
        {"epochs": 3},
        {"batch_size": 100, "accumulation": 4},
        {"settings": {"dropout": 0.5}, "name": "calmer"},
        {"precision": "fp16", "compile": True},
        {"checkpoint_steps": 7, "on_nan": "skip", "max_restarts": 3},
    ],
)
def test_what_may_change(changes: dict[str, Any]) -> None:
    assert problems(run(), **changes) == {}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"recipe": "digits_keras"}, "recipe", sentence("start-new-run-to-train-another")),
        ({"seed": 8}, "seed", sentence("start-new-run-for-another-seed")),
        ({"optimizer": "sgd"}, "optimizer", sentence("start-new-run-for-another-optimizer")),
        ({"momentum": 0.9}, "momentum", "holds no momentum"),
        ({"strategy": "tf/mirrored"}, "strategy", "choose a torch strategy"),
        ({"epochs": 2}, "epochs", sentence("epochs-are-done-at-this-checkpoint")),
    ],
)
def test_a_change_that_is_not_allowed_is_reported_with_its_field(
    changes: dict[str, Any], field: str, words: str
) -> None:
    found = problems(run(), **changes)
    assert [*found] == [field]
    assert words in found[field]


def test_momentum_may_change_but_not_end() -> None:
    info = run(optimizer="sgd", momentum=0.9)
    assert problems(info, momentum=0.5) == {}
    assert "holds the momentum" in problems(info, momentum=0.0)["momentum"]


def test_a_run_that_has_done_all_its_epochs_needs_more() -> None:
    end = replace(MANIFEST, position=Position(epoch=5, step=20))
    finished = run(RunState.FINISHED)
    assert "5 epochs are done" in problems(finished, end)["epochs"]
    assert problems(finished, end, epochs=6) == {}
    assert problems(run(RunState.FAILED), end) == {}, "it failed to leave: there is nothing to do"


def test_fp16_is_another_kind_of_checkpoint_in_tensorflow_only() -> None:
    mixed = replace(MANIFEST, strategy="tf/mirrored")
    info = run(strategy="tf/mirrored", precision="fp16")
    assert "go on with fp16" in problems(info, mixed, precision="fp32")["precision"]
    assert problems(run(strategy="tf/mirrored"), mixed, precision="bf16") == {}


def test_the_batch_size_needs_a_checkpoint_that_says_its_own() -> None:
    old = replace(MANIFEST, batch_size=0)
    assert "the end of an epoch" in problems(run(), old, batch_size=64)["batch_size"]
    between = replace(old, position=Position(epoch=2, step=8))
    assert problems(run(), between, batch_size=64) == {}


def test_what_is_fixed_is_known_before_anybody_changes_it() -> None:
    assert [name for name in FIELDS if fixed(name)] == ["seed", "optimizer"]
    assert "model" in fixed("recipe")


@pytest.mark.parametrize(
    ("strategy", "devices", "replicas", "words"),
    [
        ("script/single", 2, 1, ""),
        ("script/torchrun", 1, 1, ""),
        ("script/torchrun", 2, 1, "choose script/single"),
        ("script/single", 1, 2, "has the parts of 2 ranks"),
    ],
)
def test_a_script_goes_on_in_one_process(
    strategy: str, devices: int, replicas: int, words: str
) -> None:
    info = run(RunState.FINISHED, strategy="script/single", command=("train.py",), epochs=1)
    manifest = replace(MANIFEST, strategy="script/single", replicas=replicas)
    names = tuple(f"cpu:{number}" for number in range(devices))
    found = problems(info, manifest, strategy=strategy, devices=names)
    assert set(found) == ({"devices"} if words else set())
    assert words in found.get("devices", "")


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"time_limit_minutes": 2.0}, "has taken 2.0 min already"),
        ({"energy_limit_wh": 3.0}, "has used 3.5 Wh already"),
        ({"time_limit_minutes": 2.5, "energy_limit_wh": 4.0}, ""),
    ],
)
def test_a_limit_that_is_reached_already_is_refused(limit: dict[str, Any], words: str) -> None:
    status = RunStatus(started=100.0, attempt_started=100.0, updated=220.0, energy=3.5)
    info = RunInfo("1", Path("1"), SPEC, status, RunState.FINISHED, "")
    found = problems(info, **limit)
    assert list(found) == ([next(iter(limit))] if words else [])
    assert words in "".join(found.values())
