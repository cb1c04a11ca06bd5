"""The index of all runs, and the cache behind it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from engine import client, paths
from engine.client import RunInfo
from engine.run_index import FILE_NAME, RunIndex
from engine.run_notes import RunNotes, write_notes
from tests.engine.written_runs import write_run


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the runs whose folders were read."""
    found: list[str] = []
    look = client.look

    def counted(run_id: str) -> RunInfo:
        found.append(run_id)
        return look(run_id)

    monkeypatch.setattr("engine.client.look", counted)
    return found


def index_file() -> Path:
    return paths.home() / FILE_NAME


def test_another_process_reads_only_the_runs_that_are_active(looked: list[str]) -> None:
    write_run("finished", (0.5, 0.25, 0.75))
    write_run("running")
    first = RunIndex().runs()
    assert [info.id for info in first] == ["2", "1"]
    looked.clear()
    again = RunIndex().runs()
    assert looked == ["2"]
    assert again == first
    assert again[1].best == {"validation/loss": (0.25, 20)}


def test_new_notes_are_seen_at_once(looked: list[str]) -> None:
    folder = write_run("finished")
    index = RunIndex()
    index.runs()
    write_notes(folder, RunNotes(name="renamed", tags=("keep",)))
    assert index.runs()[0].title == "renamed · single · #1"
    assert RunIndex().runs()[0].notes.tags == ("keep",)


@pytest.mark.parametrize("damage", [b"not a database, but long enough to be one" * 99, b"SQLite"])
def test_a_damaged_cache_is_made_anew(damage: bytes, looked: list[str]) -> None:
    write_run("stopped")
    good = RunIndex().runs()
    index_file().write_bytes(damage)
    assert RunIndex().runs() == good
    RunIndex().runs()
    looked.clear()
    assert RunIndex().runs() == good
    assert looked == []


def test_a_run_that_is_gone_leaves_the_cache(looked: list[str]) -> None:
    folder = write_run("stopped")
    index = RunIndex()
    index.runs()
    folder.rename(folder.parent / "elsewhere")
    assert index.runs() == []
    assert RunIndex().runs() == []


def test_where_nothing_can_be_kept_the_runs_are_listed_all_the_same() -> None:
    write_run("stopped")
    index_file().mkdir()
    assert [info.id for info in RunIndex().runs()] == ["1"]


def test_the_best_figure_is_finite() -> None:
    write_run("finished", (math.nan, 3.0, -math.inf, 2.0))
    assert RunIndex().runs()[0].best == {"validation/loss": (2.0, 40)}
