"""How often an attempt that failed is followed by another, and from where."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.runs import checkpoint_files
from engine.runs.checkpoint_files import Position
from engine.supervisor.restart_policy import Reach, Restarts, Search, Setback


def setback(step: int, message: str = "Rank 0 failed.", reach: int | None = None) -> Setback:
    return Setback(message, step, step + 2 if reach is None else reach)


def test_without_any_allowed_there_is_none_and_no_word_of_it() -> None:
    restarts = Restarts(0)
    assert not restarts.grant(setback(5))
    assert restarts.refusal == ""


def test_there_are_as_many_as_are_allowed() -> None:
    restarts = Restarts(2)
    assert [restarts.grant(setback(step)) for step in (10, 50, 90)] == [True, True, False]
    assert restarts.refusal == "It was restarted 2 times already."


@pytest.mark.parametrize(
    ("second", "is_granted"),
    [
        (setback(10), False),
        (setback(9), False),
        (setback(13), True),
        (setback(7), True),
        (setback(10, "Rank 1 failed."), True),
        (setback(3, reach=40), False),
    ],
)
def test_the_same_failure_at_the_same_step_is_not_tried_a_third_time(
    second: Setback, is_granted: bool
) -> None:
    restarts = Restarts(5)
    assert restarts.grant(setback(10))
    assert restarts.grant(second) is is_granted
    if not is_granted:
        assert restarts.refusal == (
            "It fails every time after step 10, so it was not restarted once more."
        )


def test_workers_report_chunks_so_a_failure_may_be_a_chunk_further() -> None:
    reach = Reach(100)
    assert (reach.step, reach.furthest) == (100, 102)
    reach.reported(108)
    reach.reported(108)  # a validation follows, and changes nothing
    assert (reach.step, reach.furthest) == (108, 124)


def test_the_newest_checkpoint_that_is_intact_is_found(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        (checkpoint_files.begin(tmp_path, step) / "data").write_text(f"data of {step}")
        checkpoint_files.publish(
            tmp_path, Position(0, step, step), strategy="s", replicas=1, batch_size=8, parameters=1
        )
    (checkpoint_files.final_folder(tmp_path, 15) / "data").write_text("bits that were flipped")
    search = Search(tmp_path)
    search.join()
    assert search.found == "step-00000010"


def test_without_a_checkpoint_there_is_none_to_find(tmp_path: Path) -> None:
    search = Search(tmp_path)
    search.join()
    assert search.found == ""
