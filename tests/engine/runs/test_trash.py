"""Deleting and restoring runs."""

from __future__ import annotations

import pytest
from filelock import FileLock

from engine import client
from engine.runs import trash
from engine.runs.trash import CannotDelete
from engine.system import paths
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence


def test_a_deleted_run_comes_back_as_it_was() -> None:
    record_epochs("finished", (0.5,), name="kept")
    before = client.get_run("1")
    trash.delete("1")
    assert client.runs() == []
    assert trash.trashed() == ["1"]
    trash.restore("1")
    assert client.get_run("1") == before
    assert trash.trashed() == []


def test_an_active_run_is_not_deleted() -> None:
    record_epochs("running")
    with pytest.raises(
        CannotDelete, match=sentence("run-is-running-stop-it-before-you-delete").pattern
    ):
        trash.delete("1")
    assert paths.run_ids() == ["1"]


def test_a_run_that_a_supervisor_is_taking_is_not_deleted() -> None:
    folder = record_epochs("stopped")
    with (
        FileLock(folder / "supervisor.lock"),
        pytest.raises(CannotDelete, match="just being started"),
    ):
        trash.delete("1")
    assert paths.run_ids() == ["1"]


def test_a_new_run_never_takes_the_number_of_a_deleted_one() -> None:
    record_epochs("stopped")
    trash.delete("1")
    assert record_epochs("stopped").name == "2"
    trash.restore("1")
    assert paths.run_ids() == ["2", "1"]


def test_a_run_that_is_missing_cannot_be_deleted_or_restored() -> None:
    for run_id in ("7", "../7", ""):
        with pytest.raises(CannotDelete, match="There is no run"):
            trash.delete(run_id)
    with pytest.raises(CannotDelete, match="not in the trash"):
        trash.restore("7")


def test_an_emptied_trash_is_empty() -> None:
    for _ in range(2):
        record_epochs("stopped")
    trash.delete("1")
    trash.delete("2")
    assert trash.empty(trash.trashed()) == 2
    assert trash.trashed() == []
    with pytest.raises(CannotDelete):
        trash.restore("1")
