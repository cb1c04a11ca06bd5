"""A copy of a run knows which of the events beside its checkpoint it has already."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from engine.messages.events import AttemptStarted, CheckpointSaved
from engine.runs import unrecorded_events
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.runs.run_copy import copy_run
from engine.runs.store.run_store import RunStore
from engine.spec import presets
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import encode_spec, read_spec, stored_environment
from engine.system import paths


@pytest.fixture
def source() -> Path:
    """A run of one attempt with a checkpoint, beside which a worker kept its newest events."""
    folder = paths.create_run_folder()
    for name in ("spec.toml", "recipe.py"):
        (folder / name).touch()
    checkpoint_files.begin(folder, 3)
    saved = checkpoint_files.publish(
        folder, Position(step=3), strategy="s", replicas=1, batch_size=8, parameters=1
    )
    unrecorded_events.write(saved.folder, 1, 0, [])
    with closing(RunStore(folder)) as store:
        store.append(AttemptStarted(1, 0, 0.0), time.time())
        store.append(CheckpointSaved(str(saved.folder), 3, 0, 1, 0.1), time.time())
        store.set_status(msgspec.structs.replace(store.status, recorded={0: 5}))
    return folder


def copied(source: Path) -> tuple[dict[int, int], list[str]]:
    """What the copy of `source` says is recorded, and the files of events beside its checkpoint."""
    new = copy_run(source, checkpoint_files.final_folder(source, 3))
    files = checkpoint_files.final_folder(new, 3).glob(checkpoint_files.unrecorded("*"))
    with closing(RunStore(new)) as store:
        return store.status.recorded, [file.name for file in files]


def test_the_events_of_the_newest_attempt_are_kept_and_those_that_are_recorded_known(
    source: Path,
) -> None:
    assert copied(source) == ({0: 5}, [checkpoint_files.unrecorded(0)])


def test_the_copy_of_a_run_uses_the_same_python(source: Path) -> None:
    python = "/envs/mine/bin/python"
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), interpreter=python)
    content = encode_spec(spec, {"python": "3.12.4", "interpreter": spec.interpreter})
    (source / "spec.toml").write_text(content)
    new = copy_run(source, checkpoint_files.final_folder(source, 3))
    assert read_spec(new).interpreter == spec.interpreter
    presets.save("again", read_spec(new))
    assert presets.read(presets.path_of("again")) == spec
    assert stored_environment(new)["interpreter"] == spec.interpreter


def test_the_events_of_an_earlier_attempt_were_recorded_since(source: Path) -> None:
    with closing(RunStore(source)) as store:
        store.append(AttemptStarted(2, 0, 0.0), time.time())
    assert copied(source)[1] == []
