"""A run folder with a link, a device or a huge file in it costs only its own row."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
import pytest
from pytestqt.qtbot import QtBot

import main
from engine import client
from engine.messages.events import RunEnded
from engine.runs import device_queue, run_notes
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_index import RunIndex
from engine.runs.store.run_store import FILE_NAME as STORE
from engine.spec.spec_file import FILE_NAME as SPEC
from gui.app import AppController
from tests.gui.conftest import Record, open_app, record, wait_for_runs, windows_end_with_their_test
from tests.support.sentences import sentence

__all__ = ["open_app", "record", "windows_end_with_their_test"]

MOST_MEMORY = 150 * 2**20
"""Bytes by which the listing of one crafted run may grow this process."""


def _replace(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def craft(folder: Path) -> None:
        for beside in folder.glob(f"{STORE}-*"):
            beside.unlink()
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return craft


def _in_store(script: str) -> Callable[[Path], object]:
    def craft(folder: Path) -> None:
        with closing(sqlite3.connect(folder / STORE)) as connection:
            connection.executescript(script)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return craft


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**30)


def _link(path: Path) -> None:
    path.symlink_to("/dev/zero")


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe for a spec": (_replace(SPEC, os.mkfifo), "spec.toml is not a regular file"),
    "a folder for a spec": (_replace(SPEC, Path.mkdir), "Is a directory"),
    "a device for a spec": (_replace(SPEC, _link), "spec.toml is a link"),
    "a spec of 50 GB": (_replace(SPEC, _sparse), "spec.toml is larger than"),
    "a spec of 100,000 lists": (
        _replace(SPEC, lambda path: path.write_text("a = " + "[" * 100_000)),
        "spec.toml is nested too deeply",
    ),
    "a pipe for a store": (_replace(STORE, os.mkfifo), "run.sqlite is not a regular file"),
    "a folder for a store": (_replace(STORE, Path.mkdir), "run.sqlite is not a regular file"),
    "a device for a store": (_replace(STORE, _link), "run.sqlite is a link"),
    "a store of 50 GB": (_replace(STORE, _sparse), "file is not a database"),
    "a pipe for a log of the store": (
        _replace(f"{STORE}-wal", os.mkfifo),
        "run.sqlite-wal is not a regular file",
    ),
    "a status of 60 MB": (
        _in_store("UPDATE status SET body = zeroblob(60000000)"),
        "a status of 60,000,000 bytes",
    ),
    "a status of 10,000 lists": (
        _in_store(f"UPDATE status SET body = x'{'91' * 10_000}'"),
        "it holds invalid data",
    ),
    "a status that says it is large": (
        _in_store("UPDATE status SET body = x'ddffffffff'"),
        "it holds invalid data",
    ),
}

READABLE: dict[str, Callable[[Path], object]] = {
    "a series with an impossible count": _in_store(
        f"INSERT INTO series (name, count) VALUES ('validation/x', {2**63 - 1})"
    ),
    "a pipe for notes": _replace(run_notes.FILE_NAME, os.mkfifo),
    "deep notes": _replace(
        run_notes.FILE_NAME, lambda path: path.write_text("note = " + "[" * 100_000)
    ),
    "a pipe for an address": _replace("control.json", os.mkfifo),
    "a deep address": _replace("control.json", lambda path: path.write_text("[" * 60_000)),
    "a pipe for a sign of life": _replace("heartbeat", os.mkfifo),
}


@pytest.fixture
def crafted(record: Record) -> Callable[[Callable[[Path], object]], Path]:
    """Makes three runs that are over, changes the second one, and returns its folder."""

    def make(change: Callable[[Path], object]) -> Path:
        folders = []
        for _ in range(3):
            recording = record()
            recording.begin()
            recording.add(RunEnded("finished", "All 2 epochs are done."))
            recording.store.close()
            folders.append(recording.folder)
        change(folders[1])
        return Path(folders[1])

    return make


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_crafted_run_is_unreadable_and_the_others_are_listed(
    what: str,
    crafted: Callable[[Callable[[Path], object]], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    change, reason = UNREADABLE[what]
    crafted(change)
    before = psutil.Process().memory_info().rss
    index = RunIndex()
    assert [run.id for run in index.runs()] == ["3", "1"]
    [unreadable] = index.unreadable
    assert unreadable.id == "2"
    assert reason in unreadable.reason
    assert psutil.Process().memory_info().rss - before < MOST_MEMORY
    assert main.main(["runs", "--json"]) == 0
    states = [run["state"] for run in json.loads(capsys.readouterr().out)]
    assert states == ["finished", "unreadable", "finished"]
    assert main.main(["queue"]) == 0
    assert main.main(["show", "3"]) == 0
    assert main.main(["show", "2"]) == 2
    assert reason in capsys.readouterr().err
    with pytest.raises(client.NoSuchRun):
        client.resume("2")


@pytest.mark.parametrize("what", READABLE)
def test_a_run_with_a_crafted_file_beside_its_store_is_listed(
    what: str,
    crafted: Callable[[Callable[[Path], object]], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    crafted(READABLE[what])
    assert [run.id for run in RunIndex().runs()] == ["3", "2", "1"]
    assert main.main(["show", "2"]) == 0
    assert main.main(["stop", "2"]) == 2
    assert "no longer active" in capsys.readouterr().err


def test_a_slow_crafted_run_is_not_read_at_every_refresh(
    crafted: Callable[[Callable[[Path], object]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    change, _ = UNREADABLE["a pipe for a store"]
    crafted(change)
    reads = []

    def slow(folder: Path) -> str:
        reads.append(folder.name)
        time.sleep(0.05)  # what the run costs
        return ""

    monkeypatch.setattr("engine.runs.run_info.folder_problem", slow)
    index = RunIndex()
    index.runs()
    index.runs()
    assert reads.count("2") == 1
    assert len(index.unreadable) == 1


def test_the_window_shows_crafted_runs_as_unreadable(
    crafted: Callable[[Callable[[Path], object]], Path],
    open_app: Callable[[], AppController],
    qtbot: QtBot,
) -> None:
    change, _ = UNREADABLE["a pipe for a store"]
    crafted(change)
    app = open_app()
    wait_for_runs(app, qtbot)
    model = app.run_list.model()
    names = [model.index(row, 0).data().rpartition("#")[2] for row in range(model.rowCount())]
    assert names == ["3", "1", "2"]


def test_a_queue_file_that_is_a_pipe_is_rebuilt(
    traindeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traindeck_home.mkdir()
    os.mkfifo(traindeck_home / device_queue.FILE_NAME)
    assert main.main(["queue"]) == 0
    assert "No run is active" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["/dev/zero", "../../../../../dev/zero", "rank0.pt", "\0"])
def test_a_manifest_names_only_files_of_its_checkpoint(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "checkpoints" / "step-00000001"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "rank0.pt")
    manifest = {
        "position": {"step": 1, "epoch": 0, "batch": 1},
        "strategy": "torch/single",
        "replicas": 1,
        "batch_size": 1,
        "parameters": 1,
        "saved": 0.0,
        "files": {name: {"bytes": 0, "sha256": ""}},
        "kinds": [],
        "metrics": {},
    }
    (folder / checkpoint_files.MANIFEST).write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(
        checkpoint_files.CheckpointDamaged,
        match=sentence("saved-file-is-missing-or-changed").pattern,
    ):
        checkpoint_files.verify(folder)
