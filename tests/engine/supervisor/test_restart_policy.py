"""Whether a failed attempt is followed by another, and from which checkpoint."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.supervisor.restart_policy import (
    CheckpointSearch,
    FailurePoint,
    RestartPolicy,
    StepBounds,
)
from tests.support.sentences import sentence


def failed_at(
    step: int, message: str = "Rank 0 failed.", possible: int | None = None
) -> FailurePoint:
    return FailurePoint(message, step, step + 2 if possible is None else possible)


def test_without_allowed_restarts_there_is_none_and_no_reason_is_given() -> None:
    restarts = RestartPolicy(0)
    assert not restarts.grant(failed_at(5))
    assert restarts.refusal == ""


def test_there_are_as_many_restarts_as_are_allowed() -> None:
    restarts = RestartPolicy(2)
    assert [restarts.grant(failed_at(step)) for step in (10, 50, 90)] == [True, True, False]
    assert restarts.refusal == sentence("it-was-restarted-times-already")


@pytest.mark.parametrize(
    ("second", "is_granted"),
    [
        (failed_at(10), False),
        (failed_at(9), False),
        (failed_at(13), True),
        (failed_at(7), True),
        (failed_at(10, "Rank 1 failed."), True),
        (failed_at(3, possible=40), False),
    ],
)
def test_the_same_failure_at_the_same_step_is_not_restarted_again(
    second: FailurePoint, is_granted: bool
) -> None:
    restarts = RestartPolicy(5)
    assert restarts.grant(failed_at(10))
    assert restarts.grant(second) is is_granted
    if not is_granted:
        assert restarts.refusal == sentence(
            "it-fails-every-time-after-step-so-it-was-not-restarted"
        )


def test_a_failure_may_be_further_than_the_last_reported_chunk() -> None:
    steps = StepBounds(100)
    assert (steps.reported, steps.possible) == (100, 102)
    steps.report(108)
    steps.report(108)  # the same step again, such as before a validation, changes nothing
    assert (steps.reported, steps.possible) == (108, 124)


def test_after_a_stall_one_report_of_many_chunks_does_not_widen_the_bounds() -> None:
    steps = StepBounds(100)
    steps.report(104)
    steps.report(5000)
    assert (steps.reported, steps.possible) == (5000, 5016)
    steps.report(5010)
    assert (steps.reported, steps.possible) == (5010, 5030)


def test_the_newest_checkpoint_that_is_intact_is_found(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        (checkpoint_files.begin(tmp_path, step) / "data").write_text(f"data of {step}")
        checkpoint_files.publish(
            tmp_path, Position(0, step, step), strategy="s", replicas=1, batch_size=8, parameters=1
        )
    (checkpoint_files.final_folder(tmp_path, 15) / "data").write_text("bits that were flipped")
    search = CheckpointSearch(tmp_path)
    search.join()
    assert search.found == "step-00000010"


def test_without_checkpoints_none_is_found(tmp_path: Path) -> None:
    search = CheckpointSearch(tmp_path)
    search.join()
    assert (search.found, search.problem) == ("", "")


def test_checkpoints_that_cannot_be_read_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(checkpoint_files, "folders", lost)
    search = CheckpointSearch(tmp_path)
    search.join(60.0)
    assert (search.found, search.problem) == ("", "stale file handle")
