"""Automatic checkpoints: when they are saved, what their manifests hold, which ones are kept."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from engine.messages.commands import SaveCheckpoint, Stop
from engine.messages.events import CheckpointSaved, Notice
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training.checkpoints import saver
from tests.support.loop_doubles import IN_VALIDATION, STEPS, Moment, Training


def test_every_n_steps_is_at_multiples_of_n_however_long_chunks_are(tmp_path: Path) -> None:
    training = Training(tmp_path)  # chunks grow
    training.change_spec(checkpoint_steps=3)
    training.run()
    assert training.kinds() == {3: ("steps",), 6: ("steps",), 8: ("last",)}


def test_a_checkpoint_is_published_after_the_earlier_points_are_on_disk(tmp_path: Path) -> None:
    """Else a run that goes on from it, because all its processes were killed, lacks those."""
    training = Training(tmp_path)
    training.change_spec(checkpoint_steps=3)
    training.run()
    assert training.session.flushes == [(3, []), (6, [3]), (8, [3, 6])]


def test_a_checkpoint_keeps_the_points_before_it_if_the_store_is_too_slow(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.change_spec(checkpoint_steps=3)
    training.session.has_durable_store = False
    training.run()
    assert training.session.unrecorded_in == [f"step-0000000{step}.tmp" for step in (3, 6, 8)]


def test_a_checkpoint_due_at_the_end_of_an_epoch_is_saved_once_after_the_validation(
    training: Training,
) -> None:
    training.change_spec(checkpoint_steps=2, checkpoint_epochs=1, keep_checkpoints=9)
    training.run()
    assert training.kinds() == {
        2: ("steps",),
        4: ("steps", "epochs"),
        6: ("steps",),
        8: ("steps", "epochs", "last"),
    }
    assert Position(epoch=1, batch=0, step=4) in training.saved()
    assert len(training.emitted(CheckpointSaved)) == 4


def test_every_n_epochs(training: Training) -> None:
    training.change_spec(checkpoint_epochs=2, epochs=5)
    training.run()
    assert training.kinds() == {8: ("epochs",), 16: ("epochs",), 20: ("last",)}


def test_the_clock_counts_between_steps(training: Training) -> None:
    training.change_spec(checkpoint_minutes=1e-9, keep_checkpoints=9)
    training.run()
    minutes = dict.fromkeys(range(1, 8), ("minutes",))
    assert training.kinds() == minutes | {8: ("minutes", "last")}


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("loss", [0.5, 0.4, 0.6, 0.4], 2),
        ("validation/loss", [0.5, 0.4, 0.6, 0.3], 4),
        ("top1_error", [0.5, 0.6, math.nan, 0.7], 1),
        ("accuracy", [0.5, 0.4, 0.6, 0.6], 3),
        ("accuracy", [math.nan, 0.4, math.inf, 0.1], 2),
        ("mae", [0.5, 0.4, 0.6, 0.7], 2),
        ("rmse", [0.5, 0.4, 0.6, 0.7], 2),
        ("word_errors", [5.0, 4.0, 6.0, 7.0], 2),
        ("mae:max", [0.5, 0.4, 0.6, 0.3], 3),
        ("accuracy:min", [0.5, 0.4, 0.6, 0.7], 2),
    ],
)
def test_the_best_by_a_metric_is_kept_and_no_other(
    metric: str, values: list[float], best: int, training: Training
) -> None:
    training.change_spec(checkpoint_best=metric, epochs=4)
    name = metric.removeprefix("validation/").partition(":")[0]
    training.trainer.validation = lambda epoch: {name: values[epoch]}
    training.run()
    kinds = {best * STEPS: ("best",)} | {4 * STEPS: ("best", "last") if best == 4 else ("last",)}
    assert training.kinds() == kinds
    info = checkpoint_files.checkpoints(training.session.folder)[0]
    assert info.manifest.metrics[f"validation/{name}"] == values[best - 1]
    assert info.manifest.position == Position(epoch=best, batch=0, step=best * STEPS)


def test_the_best_so_far_survives_a_resume(training: Training, tmp_path: Path) -> None:
    training.change_spec(checkpoint_best="loss", epochs=4)
    training.trainer.validation = lambda epoch: {"loss": [0.3, 0.5][epoch]}
    training.post(("train", 2, 0), Stop())
    training.run()
    assert training.kinds() == {4: ("best",), 9: ("last",)}

    rest = Training(tmp_path)
    rest.change_spec(checkpoint_best="loss", epochs=4)
    rest.trainer.validation = lambda epoch: {"loss": [0.4, 0.2][epoch - 2]}
    rest.run(Position(epoch=2, batch=1, step=9))
    assert rest.kinds() == {9: ("last",), 16: ("best", "last")}, "0.4 was no best"


def test_a_checkpoint_has_the_metrics_of_the_last_validation_also_after_a_resume(
    training: Training, tmp_path: Path
) -> None:
    training.trainer.validation = lambda epoch: {"loss": 0.25}
    training.post(("train", 1, 0), Stop())
    training.run()
    rest = Training(tmp_path)
    rest.post(("train", 1, 1), Stop())
    rest.run(Position(epoch=1, batch=1, step=5))
    for info in checkpoint_files.checkpoints(tmp_path):
        assert info.manifest.metrics["validation/loss"] == 0.25


def test_an_unknown_metric_is_reported_once_with_the_known_ones(
    training: Training,
) -> None:
    training.change_spec(checkpoint_best="acuracy")
    training.trainer.validation = lambda epoch: {"loss": 0.5, "accuracy": 0.9}
    training.run()
    [notice] = training.emitted(Notice)
    assert isinstance(notice, Notice)
    assert "'acuracy'" in notice.text
    assert "seen, loss, accuracy" in notice.text
    assert training.kinds() == {8: ("last",)}


def test_an_existing_checkpoint_gets_the_new_kinds_and_metrics(
    training: Training,
) -> None:
    training.change_spec(checkpoint_best="loss", checkpoint_epochs=1)
    training.post(IN_VALIDATION, SaveCheckpoint())
    training.run()
    [info, _] = checkpoint_files.checkpoints(training.session.folder)
    assert info.manifest.kinds == ("request", "epochs", "best")
    assert info.manifest.position == Position(epoch=0, batch=STEPS, step=STEPS), "it stays itself"
    assert info.manifest.metrics["validation/loss"] == 0.5
    assert checkpoint_files.verify(info.folder) == info.manifest


def test_older_automatic_checkpoints_are_deleted(training: Training) -> None:
    training.change_spec(checkpoint_steps=1, keep_checkpoints=2, checkpoint_best="loss")
    training.post(("train", 0, 1), SaveCheckpoint())
    training.trainer.validation = lambda epoch: {"loss": [0.1, 0.2][epoch]}
    training.run()
    assert training.kinds() == {
        2: ("request", "steps"),
        4: ("steps", "best"),
        7: ("steps",),
        8: ("steps", "last"),
    }
    names = {path.name for path in (training.session.folder / checkpoint_files.FOLDER).iterdir()}
    assert len(names) == 4, "and nothing is left of them"


def test_a_resumed_training_saves_nothing_at_its_first_step(
    training: Training, tmp_path: Path
) -> None:
    training.change_spec(checkpoint_steps=4)
    training.post(("train", 1, 1), Stop())
    training.run()
    rest = Training(tmp_path)
    rest.change_spec(checkpoint_steps=4)
    rest.run(Position(epoch=1, batch=0, step=4))
    steps = [event.step for event in rest.emitted(CheckpointSaved)]  # type: ignore[union-attr]
    assert steps == [8]


def test_without_a_supervisor_the_events_lie_in_the_checkpoint_before_it_is_complete(
    training: Training,
) -> None:
    """And once more when the training has ended, with the events of the checkpoint itself."""

    def kill_supervisor(moment: Moment) -> None:
        if moment == IN_VALIDATION:
            training.session.is_orphaned = True
            training.session.mailbox.post(Stop())

    training.trainer.after = kill_supervisor
    training.run()
    assert training.session.unrecorded_in == ["step-00000004.tmp", "step-00000004"]
    assert training.saved() == [Position(0, STEPS, STEPS)]


def test_without_a_supervisor_a_checkpoint_that_exists_gets_the_events(training: Training) -> None:
    def kill_supervisor(moment: Moment) -> None:
        if moment == ("train", 0, 2):
            training.session.is_orphaned = True
            training.session.mailbox.post(SaveCheckpoint())
            training.session.mailbox.post(Stop())

    training.trainer.after = kill_supervisor
    training.run()
    [position] = training.saved()
    name = f"step-{position.step:08d}"
    assert training.session.unrecorded_in[-1] == name


def test_a_slow_save_shows_that_it_gets_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the supervisor by signs of life, and without one to all by the folder's time."""
    monkeypatch.setattr(saver, "MARK_SECONDS", 0.0)
    training = Training(tmp_path)
    training.change_spec(epochs=1)
    seen: list[tuple[str, int, object]] = []
    write = training.trainer.save

    def save(folder: Path) -> None:
        for _ in range(3):
            training.trainer.progress(1000)
            os.utime(folder, (1.0, float(len(seen))))
            training.trainer.progress(1000)
            alive = training.session.alive
            seen.append((alive.doing, alive.place, checkpoint_files.save_progress(tmp_path)))
        write(folder)

    monkeypatch.setattr(training.trainer, "save", save)
    training.run()
    assert [(doing, place - STEPS) for doing, place, _ in seen] == [
        ("checkpoint", 2000),
        ("checkpoint", 4000),
        ("checkpoint", 6000),
    ]
    assert all(progress > (0, 10**12) for *_, progress in seen), "marked, not left in 1970"
