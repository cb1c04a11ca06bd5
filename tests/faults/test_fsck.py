"""A run whose files are damaged in many ways is mended by `fsck`, and trains on."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

import main
from engine import client
from engine.repair import store_salvage
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME as STORE
from engine.runs.store.store_reader import RunReader
from engine.spec import catalog
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.system import paths
from tests.support.contract import plain
from tests.support.full_disk import fill, small_disk
from tests.support.lost_files import LostFiles
from tests.support.old_runs import NEWEST, restore_run
from tests.support.runs import curve, wait_for_end
from tests.support.trained_runs import own_copy

PAGE = 4096


@pytest.fixture
def damaged() -> Path:
    """A stopped run: no spec, an empty recipe, a store with a page of noise, and a newest
    checkpoint that is not what was saved."""
    run = restore_run(NEWEST)
    (checkpoint_files.begin(run, 40) / "weights").write_bytes(b"weights")
    checkpoint_files.publish(
        run, Position(step=40), strategy="torch/single", replicas=1, batch_size=8, parameters=1
    )
    (checkpoint_files.final_folder(run, 40) / "weights").write_bytes(b"Weights")
    checkpoint_files.begin(run, 50)
    with closing(sqlite3.connect(run / STORE)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'not_finite'"
        ).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (run / STORE).open("r+b") as store:
        store.seek((page - 1) * PAGE)
        store.write(b"\xff" * PAGE)
    (run / SPEC).unlink()
    (run / "recipe.py").write_bytes(b"")
    return run


@pytest.mark.usefixtures("processes")
def test_a_mended_run_trains_on(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["fsck", "1"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("Checked 1 run: 5 problems")
    assert main.main(["fsck", "--repair", "1"]) == 0
    before = client.get_run("1")
    assert before.state is RunState.STOPPED
    steps, losses = curve(before, "train/loss")
    assert steps == list(range(1, 37)), "no point was in the damaged page"
    longer = replace(before.spec, epochs=before.status.epoch + 1)
    client.resume("1", spec=longer, recipe="as-it-was")
    info = wait_for_end("1")
    assert info.state is RunState.FINISHED, info.reason
    more_steps, more_losses = curve(info, "train/loss")
    assert more_losses[: len(losses)] == losses
    assert more_steps == list(range(1, info.status.total_steps + 1))
    capsys.readouterr()
    assert main.main(["fsck"]) == 0
    assert capsys.readouterr().out.endswith("nothing is damaged.\n")


@pytest.mark.usefixtures("processes")
def test_a_run_has_a_backup_of_all_that_it_has_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    info = own_copy(plain(catalog.strategy("torch/single")))
    before = curve(info, "train/loss")
    with RunReader(info.folder) as reader:
        events = reader.events_after(0)
    (info.folder / STORE).write_bytes(b"noise" * 1000)
    assert main.main(["fsck", "--repair", info.id]) == 0
    assert "and from its backup" in capsys.readouterr().out
    assert curve(client.get_run(info.id), "train/loss") == before
    with RunReader(info.folder) as reader:
        assert reader.events_after(0)[:-1] == events, "and the last one tells of the repair"


def test_on_a_full_disk_nothing_changes_and_the_reason_is_said(
    damaged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = {path: path.read_bytes() for path in damaged.glob("*") if path.is_file()}
    monkeypatch.setattr(store_salvage, "_copy_points", full)
    monkeypatch.setattr("engine.repair.file_check.write_atomically", full)
    assert main.main(["fsck", "1", "--repair"]) == 1
    said = capsys.readouterr().out
    assert said.count("It was not mended: the disk is full. Make room, then repair again.") == 3
    for path, content in before.items():
        if "sqlite-" not in path.name:
            assert path.read_bytes() == content
    monkeypatch.undo()
    monkeypatch.setenv("TRAINDECK_HOME", str(paths.home()))
    assert not list(damaged.glob(".fsck-*")), "no half-written store is left"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small disk that holds the data folder."""
    with small_disk(tmp_path / "disk", "2m"):
        monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path / "disk" / "home"))
        yield tmp_path / "disk"


@pytest.mark.usefixtures("processes")
def test_a_disk_that_is_really_full(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = restore_run(NEWEST)
    with closing(sqlite3.connect(run / STORE)) as connection, connection:
        connection.execute("DELETE FROM point WHERE series = 1 AND i = 4")
    (run / "recipe.py").write_text("")
    fill(disk / "filler")
    assert [info.state for info in client.runs()] == [RunState.STOPPED], "it is listed meanwhile"
    before = (run / STORE).read_bytes()
    assert main.main(["fsck", "1", "--repair"]) == 1
    assert capsys.readouterr().out.count("the disk is full. Make room") == 2
    assert (run / STORE).read_bytes() == before
    (disk / "filler").unlink()
    assert main.main(["fsck", "1", "--repair"]) == 0
    assert main.main(["fsck"]) == 0


@pytest.mark.usefixtures("processes")
def test_a_read_only_disk_is_checked_and_said_when_it_should_be_mended(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = restore_run(NEWEST)
    (run / "recipe.py").write_text("")
    for beside in run.glob(f"{STORE}-*"):
        beside.unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert [info.state for info in client.runs()] == [RunState.STOPPED], "it is listed meanwhile"
    assert main.main(["fsck"]) == 1
    assert "recipe.py: The copy of the recipe is empty. With --repair" in capsys.readouterr().out
    assert main.main(["fsck", "--repair"]) == 1
    assert "Read-only file system" in capsys.readouterr().out


@pytest.mark.usefixtures("processes")
def test_a_disk_that_gives_no_files_is_no_damage_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = restore_run(NEWEST)
    before = sorted(path.name for path in run.iterdir())
    files = LostFiles(run, tmp_path, monkeypatch)
    files.lose(errno.EIO)
    program = [sys.executable, str(Path(main.__file__))]
    listed = subprocess.run([*program, "runs"], capture_output=True, text=True, check=False)
    assert (listed.returncode, "Input/output error" in listed.stderr) == (0, True)
    command = [*program, "fsck", "--repair"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "Input/output error" in found.stdout
    assert "It is perhaps not damaged: check the disk, then try again." in found.stdout
    assert "1 problem" in found.stdout.splitlines()[-1]
    files.find()
    assert sorted(path.name for path in run.iterdir()) == before
    assert main.main(["fsck"]) == 0


def test_a_repair_that_is_killed_leaves_the_damaged_store_and_is_repeated(damaged: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_salvage, "_replace_store", kill)
        patch.setattr("engine.repair.store_salvage.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            main.main(["fsck", "1", "--repair"])
    assert list(damaged.glob(".fsck-*"))
    assert main.main(["fsck", "1", "--repair"]) == 0
    assert not list(damaged.glob(".fsck-*"))
    assert main.main(["fsck"]) == 0
