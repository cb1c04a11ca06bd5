"""Real runs that go on from a checkpoint with other settings than before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine import client
from engine.client import RunInfo
from engine.messages.events import EpochEnded, TrainingStarted
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.training import lr_schedule
from tests.support.contract import STEPS, assert_alike, last_checkpoint, plain, probe
from tests.support.runs import curve, events, wait_for_end
from tests.support.sentences import sentence
from tests.support.trained_runs import own_copy, trained

pytestmark = pytest.mark.usefixtures("processes")


def short_run(strategy: str, **options: Any) -> RunInfo:
    """Of the probe recipe, whose epochs have four steps of at most 32 samples."""
    often = {"epochs": 3, "checkpoint_steps": 2, "keep_checkpoints": 9}
    return trained(probe(catalog.strategy(strategy), **often | options))


def continued(info: RunInfo, checkpoint: Path | None = None, **changes: Any) -> RunInfo:
    """The run, gone on with these changes to its end."""
    client.resume(info.id, checkpoint, replace(info.spec, **changes))
    return wait_for_end(info.id)


def test_more_epochs_for_a_finished_run_equal_a_run_that_was_as_long() -> None:
    longer = continued(own_copy(short_run("torch/single")), epochs=5)
    assert (longer.state, longer.spec.epochs) == (RunState.FINISHED, 5), longer.reason
    assert curve(longer, "train/loss")[0] == [*range(1, STEPS + 1)]
    assert_alike(longer, plain(catalog.strategy("torch/single")), tolerance=1e-6)


@pytest.mark.parametrize(
    "strategy", ["torch/single", pytest.param("tf/parameter_server", marks=pytest.mark.nightly)]
)
def test_another_batch_size_and_rate_in_the_middle_of_an_epoch(strategy: str) -> None:
    """64 samples of the second epoch are done, so four of its batches of 16; three are left."""
    info = own_copy(short_run(strategy))
    before = curve(info, "train/loss")
    middle = checkpoint_files.folders(info.folder)[6]
    changes = {"batch_size": 16, "learning_rate": 0.001, "schedule": "cosine"}
    changed = continued(info, middle, **changes)
    assert changed.state is RunState.FINISHED, changed.reason

    [*_, started] = [event for event in events(changed) if isinstance(event, TrainingStarted)]
    assert (started.step, started.steps_per_epoch, started.total_steps) == (6, 7, 16)
    assert (changed.status.step, changed.status.total_steps) == (16, 16)
    ends = [event.step for event in events(changed) if isinstance(event, EpochEnded)]
    assert ends == [4, 8, 12, 9, 16], "the first three before the change"
    steps, losses = curve(changed, "train/loss")
    assert steps == [*range(1, 17)]
    assert losses[:6] == before[1][:6]
    _, rates = curve(changed, "train/learning_rate")
    expected = [0.001 * lr_schedule.factor("cosine", 0, step, 16) for step in range(6, 16)]
    if not catalog.strategy(strategy).is_synchronous:  # its steps come in any order
        rates[6:], expected = sorted(rates[6:]), sorted(expected)
    assert rates == pytest.approx([0.05] * 6 + expected, rel=1e-5)
    manifest = checkpoint_files.read_manifest(last_checkpoint(changed))
    assert (manifest.batch_size, manifest.position.epoch) == (16, 3)
    assert (changed.folder / "spec.before-2.toml").exists()


def test_another_rate_holds_where_fit_sets_it() -> None:
    """The checkpoint brings the learning rate of its optimizer with it."""
    info = own_copy(short_run("tf/mirrored_fit", epochs=1, optimizer="sgd"))
    still = continued(info, epochs=3, learning_rate=1e-12)
    _, losses = curve(still, "train/loss")
    first, second = _mean(losses[4:8]), _mean(losses[8:12])
    assert first == pytest.approx(second, rel=1e-4), "the same samples, and no weight has moved"


def test_a_new_run_goes_on_in_the_place_of_another() -> None:
    """Half as a copy, half its own: together the whole, and the other has not changed."""
    info = own_copy(short_run("torch/single"))
    first = checkpoint_files.folders(info.folder)[4]
    new = wait_for_end(client.resume_as_new(info.id, first, replace(info.spec, epochs=4)))
    assert (new.state, new.id, new.name) == (RunState.FINISHED, "2", "probe_torch from #1")
    (steps, ours), (theirs_steps, theirs) = curve(new, "train/loss"), curve(info, "train/loss")
    assert (steps, theirs_steps) == ([*range(1, 17)], [*range(1, 13)])
    assert ours[:12] == theirs
    assert client.get_run(info.id) == info


def test_settings_that_make_another_model_are_refused_in_words() -> None:
    info = own_copy(short_run("torch/single"))
    failed = continued(info, epochs=4, settings={"width": 30})
    assert failed.state is RunState.FAILED
    assert "holds a model of" in failed.reason
    assert sentence("resume-with-recipe-and-settings") in failed.reason
    assert failed.reason.endswith(sentence("previous-settings-were-restored"))
    assert failed.spec == info.spec
    assert not list(info.folder.glob("spec.before-*"))
    back = continued(failed, epochs=4)
    assert back.state is RunState.FINISHED, back.reason


def _mean(losses: list[float]) -> float:
    """Over the samples of an epoch, of which the last batch has one."""
    return (32 * sum(losses[:3]) + losses[3]) / 97
