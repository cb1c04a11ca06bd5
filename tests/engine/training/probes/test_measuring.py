"""A run that is measured measures after its steps, and others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.messages.events import CheckpointSaved, Metrics, Notice, TrainingEnded
from engine.training.probes.measuring import (
    MEASURE,
    MOST_REPEATS,
    MOST_SAVED,
    Measurements,
    measure_if_asked,
    repeats_of,
)
from tests.support.loop_doubles import CountingTrainer, RecordingSession, SingleProcess, Training


class Measured(CountingTrainer):
    """A trainer that measures."""

    def measure(self, told: Measurements) -> None:
        told.tell("all_reduce/1024/seconds", 0.5)
        told.tell_of_rank("weights", 2.0)
        told.note("It went well.")
        self.seconds = told.seconds


def figures(session: RecordingSession) -> dict[str, float]:
    points = [
        each for event in session.emitted if isinstance(event, Metrics) for each in event.points
    ]
    return {each.series: each.values[0] for each in points}


def test_the_figures_of_a_rank_are_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEASURE, "12.5")
    session, trainer = RecordingSession(tmp_path), Measured(SingleProcess())
    assert measure_if_asked(trainer, session)
    assert trainer.seconds == 12.5
    assert figures(session) == {
        "measured/all_reduce/1024/seconds": 0.5,
        "measured/rank/0/weights": 2.0,
    }
    assert [each.text for each in session.emitted if isinstance(each, Notice)] == ["It went well."]


def test_what_is_the_same_on_all_ranks_is_told_by_rank_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEASURE, "1")
    session = RecordingSession(tmp_path, rank=1)
    measure_if_asked(Measured(SingleProcess(), rank=1), session)
    assert figures(session) == {"measured/rank/1/weights": 2.0}


def test_an_ordinary_run_measures_nothing(tmp_path: Path) -> None:
    session = RecordingSession(tmp_path)
    assert measure_if_asked(Measured(SingleProcess()), session)
    assert session.emitted == []


def test_a_trainer_that_cannot_measure_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEASURE, "1")
    assert measure_if_asked(CountingTrainer(SingleProcess()), RecordingSession(tmp_path))


@pytest.mark.parametrize(("parameters", "saves"), [(MOST_SAVED, 1), (MOST_SAVED + 1, 0)])
def test_the_checkpoint_of_a_large_model_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: int, saves: int
) -> None:
    monkeypatch.setenv(MEASURE, "1")
    training = Training(tmp_path)
    monkeypatch.setattr(training.trainer, "parameters", parameters)
    training.run()
    assert len(training.emitted(CheckpointSaved)) == saves
    assert len(training.emitted(TrainingEnded)) == 1


@pytest.mark.parametrize(
    ("each", "left", "repeats"),
    [(0.1, 1.0, 5), (1.0, 1.0, 0), (1e-9, 9.0, MOST_REPEATS), (1, -1, 0)],
)
def test_an_all_reduce_is_repeated_as_often_as_there_is_time(
    each: float, left: float, repeats: int
) -> None:
    assert repeats_of(each, left) == repeats
