"""A new run in the place of another, up to the start of its supervisor."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine import client
from engine.client import CannotStart
from engine.facts.run_facts import Parent, read_facts
from engine.messages.events import (
    AttemptStarted,
    CheckpointSaved,
    EpochEnded,
    Event,
    Metrics,
    Points,
    RunEnded,
    TrainingStarted,
)
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState, fold
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.spec.spec_file import older_specs, read_spec, replaced_spec
from engine.system import paths
from tests.engine.test_client_resume import SPEC, contents, started, stopped_run

__all__ = ["started"]


def test_a_new_run_in_its_place_has_what_was_before_it_and_leaves_the_other_alone(
    started: list[tuple[Any, ...]],
) -> None:
    folder = stopped_run(3, 6)
    before = contents(folder)
    changed = replace(SPEC, epochs=9)
    first = folder / "checkpoints" / "step-00000003"
    assert client.resume_as_new("1", first, changed) == "2"
    named = replace(changed, name="digits from #1")
    assert started == [("--resume", "step-00000003", named)]
    assert contents(folder) == before
    new = client.get_run("2")
    assert (new.spec, new.state) == (named, RunState.STARTING)
    assert read_facts(new.folder).parent == Parent(run="1", checkpoint="step-00000003")
    assert [*checkpoint_files.folders(new.folder)] == [3]
    assert checkpoint_files.verify(new.folder / "checkpoints" / first.name)
    assert read_spec(folder) == SPEC
    client.resume_as_new("1", spec=replace(SPEC, name="mine"))
    assert client.get_run("3").spec.name == "mine"


def test_a_new_run_in_its_place_knows_nothing_of_what_came_after_its_checkpoint(
    started: list[tuple[Any, ...]],
) -> None:
    """Neither the time that the other has taken since, nor its results, nor its settings."""
    spec = replace(SPEC, batch_size=16)
    folder = stopped_run(3, 6, spec=spec)
    accuracy = "validation/accuracy"
    with closing(RunStore(folder)) as store:
        later: list[tuple[float, Event]] = [
            (100.0, AttemptStarted(2, 1, 1.0)),
            (110.0, TrainingStarted(0, 3, 9, 1, 1, 27)),
            (130.0, Metrics(110.0, 130.0, [Points(accuracy, [3], [0.5])])),
            (130.0, EpochEnded(1, 3, {accuracy: 0.5})),
            (131.0, CheckpointSaved(str(folder / "checkpoints" / "step-00000003"), 3, 1, 9, 0.1)),
            (190.0, Metrics(131.0, 190.0, [Points(accuracy, [6], [0.9])])),
            (190.0, EpochEnded(2, 6, {accuracy: 0.9})),
            (190.0, RunEnded("finished", "x")),
        ]
        for time, event in later:
            store.append(event, time)
    with replaced_spec(folder, replace(spec, batch_size=32), 2):
        pass
    with replaced_spec(folder, replace(spec, batch_size=64), 3):
        pass
    before = contents(folder)
    first = folder / "checkpoints" / "step-00000003"
    new = client.get_run(client.resume_as_new("1", first, replace(spec, batch_size=128)))
    assert contents(folder) == before
    status = new.status
    assert (status.attempt, status.step, status.epoch) == (2, 3, 1)
    assert (status.metrics, status.seconds(status.updated)) == ({accuracy: 0.5}, 31.0)
    assert fold(status, AttemptStarted(3, 1, 1.0), 500.0).started == 500.0
    with RunReader(new.folder) as reader:
        assert reader.counts() == {accuracy: 1}
        assert isinstance(reader.events_after(0)[-1].event, CheckpointSaved)
    sizes = {attempt: path.read_text() for attempt, path in older_specs(new.folder).items()}
    assert [*sizes] == [2, 3]
    assert "batch_size = 16" in sizes[2]
    assert "batch_size = 32" in sizes[3], "as the checkpoint was made, not 64"


def test_a_new_run_that_cannot_start_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped_run(3)

    def fail(folder: Path, *arguments: str, secrets: object) -> None:
        raise CannotStart([])

    monkeypatch.setattr(client, "_start_supervisor", fail)
    with pytest.raises(CannotStart):
        client.resume_as_new("1")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("engine.spec.spec_file.write_atomically", full)
        with pytest.raises(CannotStart, match=r"cannot be written: .*No space left"):
            client.resume_as_new("1")
        with pytest.raises(CannotStart, match=r"cannot be written: .*No space left"):
            client.resume("1", spec=replace(SPEC, epochs=9))
    assert not list(paths.run_folder("1").glob("spec.before-*"))
    monkeypatch.setattr("engine.runs.run_copy._copy_store", full)
    with pytest.raises(CannotStart, match=r"cannot be copied to a new run: .*No space left"):
        client.resume_as_new("1")
    assert [run.id for run in client.runs()] == ["1"]
    assert not paths.is_run("2")
