"""Runs of every stored format, older and newer: `docs/compatibility.md` says what to expect.

`tests/data/formats/` holds small runs that the versions of their names recorded. They are as these
versions wrote them, but for the paths and the platform of the machine, and without logs.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

import main
from engine import client
from engine.client import CannotStart, UnreadableRun
from engine.files.format_version import FormatVersion
from engine.interface.local_engine import LocalEngine
from engine.messages.events import Notice, RecipeVersion, RunEnded
from engine.runs import run_info
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import MANIFEST, CheckpointDamaged
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.run_state import RunState
from engine.runs.store import run_store
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.spec import spec_file
from engine.spec.spec_file import FILE_NAME as SPEC
from gui.bridge.files.export_file import RunTable, csv_text
from tests.support.old_runs import ALL, FORMATS, NEWEST, OLDEST_CHECKPOINT, restore_run
from tests.support.runs import curve, wait_for_end
from tests.support.sentences import sentence


def test_the_formats_of_today_have_a_run_here() -> None:
    today = {str(run_store.FORMAT), str(spec_file.FORMAT), str(checkpoint_files.FORMAT)}
    assert today <= set(ALL), "record a small run of the new format, and name its folder after it"


@pytest.mark.parametrize("name", ALL)
def test_a_run_of_every_format_is_listed_shown_and_exported(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = restore_run(name)
    [info] = client.runs()
    assert (info.name, info.state) == ("A small run", RunState.STOPPED)
    assert main.main(["show", "1"]) == 0
    assert "torch/single" in capsys.readouterr().out
    steps, losses = curve(info, "train/loss")
    assert steps == list(range(1, info.status.step + 1))
    assert losses[-1] < losses[0]
    with RunReader(folder) as reader:
        assert len(reader.history("train/loss", most=10).step) >= 2, "drawn as blocks"
        assert isinstance(reader.events_after(0)[-1].event, RunEnded)
    table = csv_text(RunTable("1", ["train/loss"], lambda run: (LocalEngine(), run)))
    assert len(table.splitlines()) == 1 + len(steps)
    [checkpoint] = client.run_checkpoints("1")
    assert checkpoint_files.verify(checkpoint.folder).position.step == info.status.step


def test_a_run_that_was_a_twin_is_an_ordinary_run() -> None:
    folder = restore_run(NEWEST)
    settings = (folder / SPEC).read_text()
    named = settings.replace("[run]\n", '[run]\ninitial_weights = "initial-weights.npz"\n')
    (folder / SPEC).write_text(named)
    (folder / "initial-weights.npz").write_bytes(b"weights")
    write_notes(folder, RunNotes(tags=("twin-1",), note="Twin: runs 1 and 2."))
    [info] = client.runs()
    assert (info.state, info.notes.tags) == (RunState.STOPPED, ("twin-1",))
    assert main.main(["show", "1"]) == 0
    assert main.main(["fsck", "1"]) == 0
    assert (folder / SPEC).read_text() == named


@pytest.mark.parametrize("name", ALL)
def test_reading_does_not_change_a_run(
    name: str,
) -> None:
    folder = restore_run(name)
    client.runs()
    for path in (FORMATS / name).rglob("*"):
        if path.is_file():
            assert (folder / path.relative_to(FORMATS / name)).read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", [OLDEST_CHECKPOINT, NEWEST])
def test_the_oldest_and_the_newest_format_train_on(
    name: str,
) -> None:
    folder = restore_run(name)
    before = client.get_run("1")
    steps_before, losses_before = curve(before, "train/loss")
    longer = replace(before.spec, epochs=before.status.epoch + 1)
    client.resume("1", spec=longer, recipe=RecipeVersion.AS_IT_WAS)
    info = wait_for_end("1")
    assert info.state is RunState.FINISHED, info.reason
    steps, losses = curve(info, "train/loss")
    assert losses[: len(losses_before)] == losses_before
    assert steps == list(range(1, info.status.total_steps + 1))
    assert len(steps) > len(steps_before)
    with closing(sqlite3.connect(folder / run_store.FILE_NAME)) as connection:
        (number,) = connection.execute("PRAGMA user_version").fetchone()
    assert FormatVersion.from_number(number) == run_store.FORMAT, "what continues it, upgrades it"


def test_checkpoints_from_before_the_first_version_are_refused_in_a_sentence() -> None:
    restore_run("1.0-first")
    with pytest.raises(CannotStart, match=sentence("no-longer-read-start-new-run").pattern):
        client.resume("1", recipe=RecipeVersion.AS_IT_WAS)


def set_format(folder: Path, text: str) -> None:
    """Make the store, the spec and the checkpoints of a run say that they have another format."""
    version = FormatVersion.from_text(text)
    with closing(sqlite3.connect(folder / run_store.FILE_NAME)) as connection:
        connection.execute(f"PRAGMA user_version = {version.number}")
    for path in (folder / SPEC, *folder.rglob(MANIFEST)):
        content = path.read_text()
        changed = re.sub(r'(format"?\s*[=:]\s*)"1\.1"', rf'\g<1>"{version}"', content)
        assert changed != content
        path.write_text(changed)


def test_a_newer_minor_format_is_read_and_what_is_unknown_is_named() -> None:
    folder = restore_run(NEWEST)
    with closing(sqlite3.connect(folder / run_store.FILE_NAME)) as connection, connection:
        unknown = b"\x82\xa4type\xa7unknown\xa1x\x01"
        connection.execute("INSERT INTO event (time, body) VALUES (2e9, ?)", (unknown,))
        connection.execute("ALTER TABLE point ADD COLUMN rank INTEGER")
        connection.execute("ALTER TABLE block ADD COLUMN median REAL")
    spec = (folder / SPEC).read_text()
    (folder / SPEC).write_text(spec.replace("[run]\n", "[run]\nimagination = 7\n"))
    [found] = run_info.all_runs()
    assert isinstance(found, UnreadableRun), "in the format of today, this is a mistake"
    set_format(folder, "1.99")
    [info] = client.runs()
    assert info.state is RunState.STOPPED
    with RunReader(folder) as reader:
        last = reader.events_after(0)[-1].event
    assert last == Notice("An event that only a newer version of Traindeck reads (format 1.99).")
    with pytest.raises(CannotStart, match=r"newer version of Traindeck.*\(imagination\): upgrade"):
        client.resume("1", recipe=RecipeVersion.AS_IT_WAS)
    with closing(RunStore(folder)) as written:
        written.rewind(3)
    with closing(sqlite3.connect(folder / run_store.FILE_NAME)) as connection:
        (number,) = connection.execute("PRAGMA user_version").fetchone()
    assert number == 199, "it stays a store of the newer version"


def test_a_newer_major_format_is_refused_by_its_number_and_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = restore_run(NEWEST)
    set_format(folder, "2.0")
    [found] = run_info.all_runs()
    assert isinstance(found, UnreadableRun)
    assert found.reason == sentence("run-cannot-be-read-settings")
    assert main.main(["runs"]) == 0
    assert "unreadable" in capsys.readouterr().out
    content = (folder / run_store.FILE_NAME).read_bytes()
    for opened in (RunReader, RunStore):
        with pytest.raises(
            sqlite3.DatabaseError, match=sentence("file-has-format-2", file="run.sqlite").pattern
        ):
            opened(folder)
    assert (folder / run_store.FILE_NAME).read_bytes() == content
    [checkpoint] = checkpoint_files.folders(folder).values()
    with pytest.raises(
        CheckpointDamaged, match=sentence("file-has-format-2", file="manifest.json").pattern
    ):
        checkpoint_files.verify(checkpoint)


def test_no_stored_run_names_a_machine() -> None:
    for path in FORMATS.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"/tmp/" not in content, path
            assert b"-generic" not in content, path
