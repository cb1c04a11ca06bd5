"""The index of all runs, and the cache behind it."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import pytest

from engine.client import RunInfo
from engine.facts.git_state import GitState
from engine.facts.run_facts import AttemptFacts, Parent, write_attempt, write_parent
from engine.messages.events import AttemptStarted
from engine.processes.process import start_time
from engine.runs import device_queue, run_index, run_info
from engine.runs.device_queue import Ticket
from engine.runs.run_index import FILE_NAME, RunIndex, newest_active
from engine.runs.run_info import Origin
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.store.run_store import RunStore
from engine.system import paths
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the runs whose folders were read."""
    found: list[str] = []
    look = run_info.get_run

    def counted(run_id: str, *, patience: float, with_best: bool) -> RunInfo:
        found.append(run_id)
        return look(run_id, patience=patience, with_best=with_best)

    monkeypatch.setattr("engine.runs.run_info.get_run", counted)
    return found


def index_file() -> Path:
    return paths.home() / FILE_NAME


def test_another_process_reads_only_the_runs_that_are_active(looked: list[str]) -> None:
    record_epochs("finished", (0.5, 0.25, 0.75))
    record_epochs("running")
    first = RunIndex().runs()
    assert [info.id for info in first] == ["2", "1"]
    looked.clear()
    again = RunIndex().runs()
    assert looked == ["2"]
    assert again == first
    assert again[1].best == {"validation/loss": (0.25, 20)}


def test_new_notes_are_seen_at_once(looked: list[str]) -> None:
    folder = record_epochs("finished")
    index = RunIndex()
    index.runs()
    write_notes(folder, RunNotes(name="renamed", tags=("keep",)))
    assert index.runs()[0].title == "renamed · single · #1"
    assert RunIndex().runs()[0].notes.tags == ("keep",)


@pytest.mark.parametrize("damage", [b"not a database, but long enough to be one" * 99, b"SQLite"])
def test_a_damaged_cache_is_rebuilt(damage: bytes, looked: list[str]) -> None:
    record_epochs("stopped")
    good = RunIndex().runs()
    index_file().write_bytes(damage)
    assert RunIndex().runs() == good
    RunIndex().runs()
    looked.clear()
    assert RunIndex().runs() == good
    assert looked == []


def test_a_run_that_is_gone_leaves_the_cache(looked: list[str]) -> None:
    folder = record_epochs("stopped")
    index = RunIndex()
    index.runs()
    folder.rename(folder.parent / "elsewhere")
    assert index.runs() == []
    assert RunIndex().runs() == []


def test_where_nothing_can_be_kept_the_runs_are_listed_all_the_same() -> None:
    record_epochs("stopped")
    index_file().mkdir()
    assert [info.id for info in RunIndex().runs()] == ["1"]


def test_the_best_figure_is_finite() -> None:
    record_epochs("finished", (math.nan, 3.0, -math.inf, 2.0))
    assert RunIndex().runs()[0].best == {"validation/loss": (2.0, 40)}


def settle(index: RunIndex) -> list[RunInfo]:
    """What `index` lists after a while in which nothing happened."""
    for path in (paths.runs_folder(), paths.home() / device_queue.FILE_NAME):
        if path.exists():
            os.utime(path, (1_760_000_000, 1_760_000_000))
    return index.runs()


def ticket(run_id: str) -> Ticket:
    return Ticket(run_id, os.getpid(), start_time(os.getpid()), (), ())


def resume(folder: Path) -> None:
    """What a supervisor does first."""
    device_queue.enter(ticket(folder.name))
    store = RunStore(folder)
    store.append(AttemptStarted(2, os.getpid(), start_time(os.getpid())), 1_760_000_500.0)
    store.close()


def test_a_refresh_reads_few_folders_of_runs_that_are_over(
    monkeypatch: pytest.MonkeyPatch, looked: list[str]
) -> None:
    for _ in range(5):
        record_epochs("finished")
    record_epochs("running")
    index = RunIndex()
    first = settle(index)
    stamped: list[str] = []
    stamp = run_index._stamp
    monkeypatch.setattr("engine.runs.run_index.PER_REFRESH", 2)
    monkeypatch.setattr(
        "engine.runs.run_index._stamp",
        lambda folder, *rest: (stamped.append(Path(folder).name), stamp(folder, *rest))[1],
    )
    looked.clear()
    assert index.refresh() is first
    assert looked == ["6"]
    assert stamped == ["6", "5"]
    for _ in range(2):
        index.refresh()
    assert set(stamped) == set("123456")


def test_a_refresh_finds_new_and_deleted_runs() -> None:
    folder = record_epochs("finished")
    index = RunIndex()
    settle(index)
    record_epochs("finished")
    assert [info.id for info in index.refresh()] == ["2", "1"]
    settle(index)
    shutil.rmtree(folder)
    assert [info.id for info in index.refresh()] == ["2"]


def test_a_refresh_finds_a_run_that_had_only_a_folder() -> None:
    record_epochs("finished")
    folder = record_epochs("finished")
    aside = folder.parent.parent / "aside"
    shutil.copytree(folder, aside)
    for file in ("spec.toml", "run.sqlite"):
        (folder / file).unlink()
    index = RunIndex()
    assert [info.id for info in settle(index)] == ["1"]
    shutil.copytree(aside, folder, dirs_exist_ok=True)
    os.utime(paths.runs_folder(), (1_760_000_000, 1_760_000_000))
    assert [info.id for info in index.refresh()] == ["2", "1"]


def test_a_refresh_finds_an_old_run_that_another_process_resumes() -> None:
    old = record_epochs("stopped")
    record_epochs("finished")
    index = RunIndex()
    settle(index)
    resume(old)
    assert index.refresh()[1].state == "starting"


def test_a_supervisor_that_is_slow_to_write_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    old = record_epochs("stopped")
    monkeypatch.setattr("engine.runs.run_index.PER_REFRESH", 0)
    device_queue.enter(ticket("1"))
    index = RunIndex()
    assert settle(index)[0].state == "stopped"
    resume(old)
    assert index.refresh()[0].state == "starting"


def test_notes_of_another_window_are_seen_when_it_is_the_turn_of_their_run() -> None:
    folder = record_epochs("finished")
    index = RunIndex()
    settle(index)
    write_notes(folder, RunNotes(name="new"))
    assert index.refresh()[0].name == "new"


def test_a_damaged_run_is_listed_apart_and_comes_back() -> None:
    folder = record_epochs("finished")
    good = (folder / "spec.toml").read_bytes()
    (folder / "spec.toml").write_bytes(b"noise")
    index = RunIndex()
    assert settle(index) == []
    assert [run.id for run in index.unreadable] == ["1"]
    (folder / "spec.toml").write_bytes(good)
    assert [info.id for info in index.refresh()] == ["1"]
    assert index.unreadable == []


def test_a_run_that_lost_its_settings_is_listed_at_once_and_a_new_one_waits_for_them() -> None:
    folder = record_epochs("finished")
    new = paths.create_run_folder()
    os.utime(folder / "recipe.py", (1.0, 1.0))  # the run is old, though its folder has changed
    (folder / "spec.toml").unlink()
    index = RunIndex()
    assert index.runs() == []
    [lost] = index.unreadable
    assert (lost.id, new.name) == ("1", "2")
    assert sentence("there-is-no-spec-in-folder", folder=folder) in lost.reason
    assert sentence("fsck-repair-restores-them-if-store") in lost.reason


def test_the_run_to_begin_with_is_the_newest_active_one_else_the_newest() -> None:
    assert newest_active() is None
    for state in ("running", "finished", "finished"):
        record_epochs(state)
    (paths.run_folder("3") / "spec.toml").write_bytes(b"noise")
    assert newest_active() == "2"
    device_queue.enter(ticket("1"))
    assert newest_active() == "1"


def test_what_a_run_was_started_from_is_in_the_list_and_in_the_cache() -> None:
    folder = record_epochs("finished", (0.5,))
    assert RunIndex().runs()[0].origin == Origin(), "an old run has no facts"
    git = GitState(commit="abc123", branch="main", changed_files=2)
    write_attempt(folder, AttemptFacts(attempt=1, recorded=1.0, host="node-1", git=git))
    write_parent(folder, Parent(run="7", checkpoint="step-00000300"))
    expected = Origin("abc123", "main", True, "node-1", "7", 300)
    assert RunIndex().runs()[0].origin == expected
    assert RunIndex().runs()[0].origin == expected, "as the cache has it"
