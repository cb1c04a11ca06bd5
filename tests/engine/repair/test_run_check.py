"""Real damage to a recorded run: it is named, mended, and then nothing is damaged any more."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from filelock import FileLock

from engine import client
from engine.files.sqlite_file import open_readonly
from engine.messages import heartbeat
from engine.messages.channel import Server, StatusAnswer
from engine.messages.events import AttemptStarted, Notice, Rewound, RunEnded
from engine.processes import process
from engine.repair.kept_files import LARGEST_FILE, keep_files
from engine.repair.report import Damage, Outcome, free_name
from engine.runs import run_index, run_info
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import MANIFEST, Position
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.run_store import FILE_NAME as STORE
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_backup import FILE_NAME as BACKUP
from engine.runs.store.store_backup import back_up
from engine.runs.store.store_reader import RunReader
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.supervisor.inbox import Inbox
from engine.system import paths
from tests.support.events import losses
from tests.support.old_runs import ALL, FORMATS, NEWEST, restore_run
from tests.support.recorded_runs import RecordedRun

Check = Callable[..., list[Damage]]

PAGE = 4096


def in_store(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / STORE)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Change a file in place; a write-ahead log would hide it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def root_page(folder: Path, table: str) -> int:
    """The offset of a page of the b-tree of `table`."""
    with closing(sqlite3.connect(folder / STORE)) as connection:
        (number,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
    return (int(number) - 1) * PAGE


def contents(folder: Path) -> dict[str, bytes]:
    """Of every file, but what SQLite keeps for its readers."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if "sqlite-" not in path.name and path.suffix != ".lock"
    }


def newest_checkpoint(folder: Path) -> Path:
    return list(checkpoint_files.folders(folder).values())[-1]


DAMAGE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    # what is done; the file of the finding; a part of the problem
    "no spec": (lambda run: (run / SPEC).unlink(), SPEC, "there is no spec.toml"),
    "an empty spec": (lambda run: (run / SPEC).write_text(""), SPEC, "it has no 'environment'"),
    "a spec of zeros": (lambda run: (run / SPEC).write_bytes(bytes(900)), SPEC, "cannot be read"),
    "no recipe": (lambda run: (run / "recipe.py").unlink(), "recipe.py", "There is no recipe"),
    "an empty recipe": (lambda run: (run / "recipe.py").write_text(""), "recipe.py", "is empty"),
    "half a recipe": (
        lambda run: (run / "recipe.py").write_bytes((run / "recipe.py").read_bytes()[:700]),
        "recipe.py",
        "recipe.py",
    ),
    "a wrong count": (
        lambda run: in_store(run, "UPDATE series SET count = 3 WHERE name = 'train/loss'"),
        STORE,
        "The number of points of train/loss is wrong.",
    ),
    "a wrong block": (
        lambda run: in_store(run, "UPDATE block SET high = 77.0 WHERE series = 1"),
        STORE,
        "are not those of its points",
    ),
    "too many blocks": (
        lambda run: in_store(
            run,
            "INSERT INTO block (series, level, i, step, time) VALUES (1, 5, 0, 1, 1.0)",
        ),
        STORE,
        "are not those of its points",
    ),
    "no blocks": (
        lambda run: in_store(run, "DELETE FROM block WHERE series = 1"),
        STORE,
        "the curve is drawn",
    ),
    "a status of noise": (
        lambda run: in_store(run, "UPDATE status SET body = x'c1c1c1'"),
        STORE,
        "The status of the run cannot be read.",
    ),
    "no status": (lambda run: in_store(run, "DELETE FROM status"), STORE, "cannot be read"),
    "a status of another attempt": (
        lambda run: in_store(run, f"UPDATE status SET body = x'{OTHER_STATUS.hex()}'"),
        STORE,
        "is not what its events say",
    ),
    "an event of noise": (
        lambda run: in_store(run, "UPDATE event SET body = x'c1c1c1' WHERE seq = 5"),
        STORE,
        "an event cannot be read",
    ),
    "a terminal event of noise": (
        lambda run: in_store(
            run, "UPDATE event SET body = x'c1' WHERE seq = (SELECT max(seq) FROM event)"
        ),
        STORE,
        "an event cannot be read",
    ),
    "a point of text": (
        lambda run: in_store(run, "UPDATE point SET value = 'much' WHERE series = 1 AND i = 4"),
        STORE,
        "a row of the table 'point'",
    ),
    "a lost point": (
        lambda run: in_store(run, "DELETE FROM point WHERE series = 1 AND i = 4"),
        STORE,
        "points of the series 'train/loss' are missing",
    ),
    "a lost name of a series": (
        lambda run: in_store(run, "DELETE FROM series WHERE name = 'train/loss'"),
        STORE,
        "points of a series without a name",
    ),
    "a lost table": (
        lambda run: in_store(run, "DROP TABLE status"),
        STORE,
        "it has no table 'status'",
    ),
    "a view in the place of a table": (
        lambda run: in_store(
            run, "ALTER TABLE event RENAME TO e", "CREATE VIEW event AS SELECT * FROM e"
        ),
        STORE,
        "it has no table 'event'",
    ),
    "a damaged index": (
        lambda run: overwrite(run / STORE, root_page(run, "not_finite"), bytes(PAGE)),
        STORE,
        "malformed",
    ),
    "a damaged page of points": (
        lambda run: overwrite(run / STORE, root_page(run, "point"), b"\xff" * PAGE),
        STORE,
        "damaged",
    ),
    "a damaged page of events": (
        lambda run: overwrite(run / STORE, root_page(run, "event"), b"\xff" * 200),
        STORE,
        "damaged",
    ),
    "a store of noise": (
        lambda run: overwrite(run / STORE, 0, bytes(range(256)) * 200),
        STORE,
        "file is not a database",
    ),
    "half a store": (
        lambda run: (run / STORE).write_bytes((run / STORE).read_bytes()[: 3 * PAGE]),
        STORE,
        "damaged",
    ),
    "no store": (lambda run: (run / STORE).unlink(), STORE, "The store of the run is missing."),
    "notes of noise": (
        lambda run: (run / "notes.toml").write_bytes(b"\xff = what"),
        "notes.toml",
        "cannot be read",
    ),
    "an unfinished checkpoint": (
        lambda run: checkpoint_files.begin(run, 99),
        "checkpoints/step-00000099.tmp",
        "was not finished",
    ),
}
OTHER_STATUS = msgspec.msgpack.encode(RunStatus(state=RunState.RUNNING, attempt=7, started=1.0))


@pytest.mark.parametrize("name", ALL)
def test_runs_of_all_formats_are_undamaged(name: str, check: Check) -> None:
    folder = restore_run(name)
    before = contents(folder)
    assert check() == []
    assert check(repair=True) == []
    assert contents(folder) == before


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_named_mended_and_gone(how: str, run: Path, check: Check) -> None:
    damage, file, problem = DAMAGE[how]
    damage(run)
    before = contents(run)
    [found] = check()
    assert (found.run, found.file) == ("1", file)
    assert problem in found.problem
    assert found.outcome is Outcome.MENDABLE
    assert contents(run) == before, "without --repair, nothing changes"
    [mended] = check(repair=True)
    assert (mended.problem, mended.outcome) == (found.problem, Outcome.MENDED)
    assert check() == []
    info = client.get_run("1")
    assert info.state is RunState.STOPPED
    assert info.status.attempt == 1
    assert [each.folder.name for each in client.run_checkpoints("1")] == ["step-00000036"]


@pytest.mark.parametrize(
    "how", [how for how, (_, file, _) in DAMAGE.items() if file in (STORE, SPEC, "recipe.py")]
)
def test_what_is_replaced_is_kept(how: str, run: Path, check: Check) -> None:
    damage, file, _ = DAMAGE[how]
    damage(run)
    damaged = contents(run).get(file)
    [finding] = check(repair=True)
    kept = contents(run).get(f"{file}.damaged-1")
    if "is kept as" in finding.action:
        assert kept is not None
        assert file == STORE or kept == damaged
    elif file != STORE:
        assert damaged is None, "there was nothing to keep"


def test_restored_files_are_those_of_the_start(run: Path, check: Check) -> None:
    for name in (SPEC, "recipe.py"):
        (run / name).write_text("")
    check(repair=True)
    for name in (SPEC, "recipe.py"):
        assert (run / name).read_bytes() == (FORMATS / NEWEST / name).read_bytes()


def test_in_a_damaged_store_all_that_can_be_read_is_saved(check: Check) -> None:
    recorded = RecordedRun()
    recorded.begin()
    for series in ("train/loss", "validation/loss"):
        for first in range(0, 20_000, 1000):
            recorded.add_points(series, range(first, first + 1000), value=float(first))
    for text in range(2000):
        recorded.store.append(Notice(f"Notice {text}: {'x' * 100}"), 1.0)
    recorded.store.close()
    path = recorded.folder / STORE
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")  # tables lie one after the other
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = path.stat().st_size // PAGE
    for part in (0.2, 0.5, 0.8):
        overwrite(path, int(pages * part) * PAGE, b"\xff" * PAGE)
    with pytest.MonkeyPatch.context() as patch:  # this process was its supervisor
        patch.setattr("engine.runs.run_info.is_alive", lambda *_: False)
        [finding] = check(repair=True)
        assert finding.outcome is Outcome.MENDED
        assert check() == []
    with RunReader(recorded.folder) as reader:
        counts = reader.counts()
        events = [stored.event for stored in reader.events_after(0)]
        assert len(reader.history("train/loss", most=1000).step) > 100
    assert sum(counts.values()) > 0.98 * 40_000
    assert sum(isinstance(event, Notice) for event in events) > 0.9 * 2000
    assert isinstance(events[0], AttemptStarted)
    assert isinstance(events[-1], Notice)
    assert events[-1].text.startswith("The store was damaged: ")


NOTICES = [Notice(f"Notice {text}: {'x' * 100}") for text in range(300)]


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ended run whose tables have pages that only lead to other pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(paths.HOME_VARIABLE, str(tmp_path_factory.mktemp("home")))
        recorded = RecordedRun()
        recorded.begin()
        for first in range(0, 20_000, 1000):
            recorded.add_points("train/loss", range(first, first + 1000), value=float(first))
        for notice in NOTICES:
            recorded.store.append(notice, 1.5)
        recorded.add(RunEnded("stopped", "x"))
        recorded.store.close()
    return recorded.folder


@pytest.fixture
def large(recorded_once: Path) -> Path:
    """A copy of the large run, as run 1."""
    folder = paths.create_run_folder()
    shutil.copytree(recorded_once, folder, dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("table", ["point", "event", "series", "status", ""])
def test_what_cannot_be_read_comes_from_the_backup(table: str, large: Path, check: Check) -> None:
    back_up(large)
    page = root_page(large, table) if table else 0
    overwrite(large / STORE, page, os.urandom(PAGE))
    [finding] = check(repair=True)
    assert finding.outcome is Outcome.MENDED
    assert "and from its backup" in finding.action
    assert "events are lost" not in finding.action
    assert check() == []
    with RunReader(large) as reader:
        points = reader.history("train/loss", most=10**6)
        events = [each.event for each in reader.events_after(0)]
    assert points.step.tolist() == list(range(20_000))
    assert [event for event in events if isinstance(event, Notice)][:-1] == NOTICES
    assert client.get_run(large.name).state is RunState.STOPPED


def test_what_was_recorded_since_the_backup_is_lost_where_it_cannot_be_read(
    large: Path, check: Check
) -> None:
    back_up(large)
    with closing(RunStore(large)) as store:
        store.append(losses([0.5] * 500, first_step=20_000), 2e9)
        store.append(Notice("after the backup"), 2e9)
    overwrite(large / STORE, root_page(large, "point"), os.urandom(PAGE))
    [finding] = check(repair=True)
    assert "20000 of 20500 points and 304 of 304 events could be read" in finding.action
    assert "20000 points and 0 events in the backup: 500 points and 0 events" in finding.action
    with RunReader(large) as reader:
        assert reader.counts()["train/loss"] == 20_000
        events = [each.event for each in reader.events_after(0)]
    assert Notice("after the backup") in events, "its page could be read"


def test_points_that_the_run_has_taken_back_do_not_come_from_the_backup(
    large: Path, check: Check
) -> None:
    back_up(large)
    with closing(RunStore(large)) as store:
        store.rewind(10_000)
        store.append(Rewound(10_000, ""), 2e9)
        store.append(losses([0.5] * 100, first_step=10_001), 2e9)
    overwrite(large / STORE, root_page(large, "point"), os.urandom(PAGE))
    [finding] = check(repair=True)
    assert "10000 of 10101 points" in finding.action
    with RunReader(large) as reader:
        assert reader.history("train/loss", most=10**6).step.tolist() == list(range(10_000))


@pytest.mark.parametrize("tables", [("series",), ("status",), ("status", "event")], ids=str)
def test_no_damage_brings_back_what_was_taken_back_or_counts_it_as_lost(
    large: Path, check: Check, tables: tuple[str, ...]
) -> None:
    back_up(large)
    with closing(RunStore(large)) as store:
        store.rewind(10_000)
        store.append(Rewound(10_000, ""), 2e9)
        store.append(losses([0.5] * 100, first_step=10_001), 2e9)
    for table in tables:
        overwrite(large / STORE, root_page(large, table), bytes(PAGE))
    [finding] = check(repair=True)
    assert finding.outcome is Outcome.MENDED
    assert "10101 of " in finding.action
    assert "20000" not in finding.action
    with RunReader(large) as reader:
        steps = reader.history("train/loss", most=10**6).step.tolist()
    assert steps == [*range(10_001), *range(10_001, 10_101)]


def test_a_second_damage_takes_nothing_of_a_backup_from_before_the_first(
    large: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repair closes gaps, so that places in a series are no longer those of that backup."""
    back_up(large)
    monkeypatch.setattr("engine.repair.store_salvage.back_up", lambda folder: None)
    in_store(large, "DELETE FROM point WHERE series = 1 AND i = 4", "PRAGMA user_version = 101")
    (large / BACKUP).rename(large / "away")
    check(repair=True)
    (large / "away").rename(large / BACKUP)
    overwrite(large / STORE, root_page(large, "point"), os.urandom(PAGE))
    [finding] = check(repair=True)
    assert "0 of 19999 points" in finding.action


def test_a_repair_makes_the_backup_anew(large: Path, check: Check) -> None:
    overwrite(large / STORE, root_page(large, "not_finite"), os.urandom(PAGE))
    [finding] = check(repair=True)
    assert "backup" not in finding.action, "there was none"
    (large / STORE).unlink()
    [finding] = check(repair=True)
    assert "it is built anew from its backup; 20000 of at least 20000 points" in finding.action
    assert check() == []
    assert client.get_run(large.name).state is RunState.STOPPED


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: overwrite(file, 0, b"noise" * 900),
        lambda file: file.write_bytes(file.read_bytes()[: 5 * PAGE]),
        lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
    ],
    ids=["noise", "half", "link"],
)
def test_a_damaged_backup_is_named_and_made_anew(
    damage: Callable[[Path], object], large: Path, check: Check
) -> None:
    back_up(large)
    damage(large / BACKUP)
    [found] = check()
    assert (found.file, found.outcome) == (BACKUP, Outcome.MENDABLE)
    assert found.problem.startswith("The backup of the store is damaged: ")
    [found] = check(repair=True)
    assert found.outcome is Outcome.MENDED
    assert check() == []


def test_a_damaged_backup_spoils_no_repair(large: Path, check: Check) -> None:
    back_up(large)
    overwrite(large / BACKUP, 0, b"noise" * 900)
    overwrite(large / STORE, root_page(large, "point"), os.urandom(PAGE))
    [finding] = check(repair=True)
    assert "0 of 20000 points and 303 of 303 events could be read" in finding.action
    assert check() == []


def test_settings_come_from_the_backup_of_a_store_that_is_noise(run: Path, check: Check) -> None:
    back_up(run)
    for name in (SPEC, "recipe.py"):
        (run / name).unlink()
    overwrite(run / STORE, 0, bytes(range(256)) * 200)
    assert {each.outcome for each in check(repair=True)} == {Outcome.MENDED}
    for name in (SPEC, "recipe.py"):
        assert (run / name).read_bytes() == (FORMATS / NEWEST / name).read_bytes()


class Killed(BaseException):
    """Ends a repair at once."""


@pytest.mark.parametrize(
    "how",
    [
        "a page",
        "no file",
        pytest.param("noise", marks=pytest.mark.nightly),
        pytest.param("empty", marks=pytest.mark.nightly),
    ],
)
def test_a_repair_that_is_killed_is_repeated_with_the_same_result(
    how: str, large: Path, check: Check
) -> None:
    back_up(large)
    backup = (large / BACKUP).read_bytes()
    with closing(RunStore(large)) as store:
        for text in range(50):
            store.append(Notice(f"in the log {text}"), 2e9)
        store.commit()
        store.rewind(12_000)
        store.append(Rewound(12_000, ""), 2e9)
        store.commit()
        log = (large / f"{STORE}-wal").read_bytes()
    page = root_page(large, "file")
    intact = (large / STORE).read_bytes()
    damaged = {
        "noise": b"\xff\x00garbage",
        "a page": intact[:page] + os.urandom(PAGE) + intact[page + PAGE :],
        "empty": b"",
        "no file": None,
    }[how]
    saved = set()
    for steps in range(7):
        for path in large.glob(f"{STORE}*"):
            path.unlink()
        if damaged is not None:
            (large / STORE).write_bytes(damaged)
        (large / f"{STORE}-wal").write_bytes(log)
        (large / BACKUP).write_bytes(backup)
        with pytest.MonkeyPatch.context() as patch:
            kill_after(steps, large, patch)
            with contextlib.suppress(Killed):
                check(repair=True)
        check(repair=True)
        assert check() == []
        with RunReader(large) as reader:
            texts = [str(each.event) for each in reader.events_after(0)]
            saved.add((reader.counts()["train/loss"], sum("in the log" in text for text in texts)))
        kept = [path.read_bytes() for path in large.glob(f"{STORE}.damaged-*")]
        assert log in kept
        assert damaged is None or damaged in kept
    from_backup = 20_000, 0
    in_log = {"a page": (12_001, 50), "noise": (12_000, 50)}  # the log has the first page too
    assert saved == {in_log.get(how, from_backup)}


def kill_after(steps: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let a repair end before one of the steps that change files of the store in `folder`."""
    done = 0
    for name in ("replace", "unlink"):
        real = getattr(Path, name)

        def step(path: Path, *args: Any, real: Any = real, **options: Any) -> Any:
            nonlocal done
            if any(Path(each).parent == folder for each in (path, *args)) and STORE in path.name:
                done += 1
                if done > steps:
                    raise Killed
            return real(path, *args, **options)

        patch.setattr(Path, name, step)


def test_pipes_links_and_files_in_the_place_of_others_are_named(
    run: Path, check: Check, processes: object
) -> None:
    for name in (STORE, SPEC, "recipe.py", "notes.toml", "checkpoints/step-00000036/manifest.json"):
        path, away = run / name, run / "logs" / "away"
        existed = path.exists()
        if existed:
            path.rename(away)
        os.mkfifo(path)
        found = check()
        assert {each.file for each in found} >= {name.removesuffix(f"/{MANIFEST}")}, name
        path.unlink()
        if existed:
            away.rename(path)
    (paths.home() / "queue.json").unlink(missing_ok=True)
    os.mkfifo(paths.home() / "queue.json")
    [found] = check(repair=True)
    assert (found.file, found.outcome) == ("queue.json", Outcome.MENDED)
    assert check() == []


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/step-00000036"])
def test_a_pipe_in_the_place_of_checkpoints_is_set_aside(
    name: str, run: Path, check: Check
) -> None:
    (run / name).rename(run / "logs" / "away")
    os.mkfifo(run / name)
    [found] = check(repair=True)
    assert (found.file, found.outcome) == (name, Outcome.MENDED)
    assert (run / f"{name}.damaged-1").exists()
    assert check() == []


def test_a_link_to_nowhere_and_a_pipe_are_no_runs(run: Path, check: Check) -> None:
    run.rename(run.with_name("away"))
    run.symlink_to("/nowhere")
    [found] = check(repair=True)
    assert (found.problem, found.outcome) == (f"{run} is a link.", Outcome.UNMENDABLE)
    run.unlink()
    os.mkfifo(run)
    [found] = check(repair=True)
    assert found.problem == f"{run} is a file or pipe, and no folder."


def test_a_link_in_the_place_of_the_store_is_not_replaced(run: Path, check: Check) -> None:
    (run / STORE).rename(run / "logs" / STORE)
    (run / STORE).symlink_to(run / "logs" / STORE)
    found = {each.file: each.outcome for each in check(repair=True)}
    assert found[STORE] is Outcome.UNMENDABLE
    assert (run / STORE).is_symlink()


def test_the_largest_numbers_are_no_end_of_the_repair(run: Path, check: Check) -> None:
    largest = 2**63 - 1
    in_store(
        run,
        f"INSERT INTO point VALUES (1, {largest}, 1, 1, 1)",
        f"INSERT INTO event VALUES ({largest}, 1.0, x'c1')",
        f"UPDATE series SET count = {largest} WHERE id = 2",
    )
    [found] = check(repair=True)
    assert found.outcome is Outcome.MENDED
    assert check() == []


@pytest.mark.parametrize(
    "name",
    ["modules/../../../evil.py", "../evil.py", "/tmp/evil.py", "modules//tmp/evil.py", "evil.py"],
)
def test_a_store_restores_only_the_files_of_its_run(name: str, run: Path, check: Check) -> None:
    with closing(sqlite3.connect(run / STORE)) as connection, connection:
        connection.execute("INSERT INTO file VALUES (1, ?, x'6869')", (name,))
    assert check(repair=True) == []


def test_no_module_is_restored_behind_a_link(run: Path, check: Check, tmp_path: Path) -> None:
    in_store(run, "INSERT INTO file VALUES (1, 'modules/evil/a.py', x'6869')")
    (run / "modules").mkdir(exist_ok=True)
    (run / "modules" / "evil").symlink_to(tmp_path)
    [found] = check(repair=True)
    assert found.outcome is Outcome.UNMENDABLE
    assert not (tmp_path / "a.py").exists()


def test_a_new_store_that_the_disk_does_not_take_replaces_none(
    run: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / STORE).write_bytes(b"\xff\x00garbage")
    before = contents(run)

    class Failing(sqlite3.Connection):
        def close(self) -> None:  # as SQLite does where the disk takes no more
            files = {path: path.read_bytes() for path in run.glob(".fsck-*/run.sqlite*")}
            super().close()
            for path, content in files.items():
                path.write_bytes(content)

    monkeypatch.setattr(
        "engine.repair.store_salvage.sqlite3.connect",
        lambda *args, connect=sqlite3.connect, **options: connect(
            *args, factory=Failing, **options
        ),
    )
    [found] = check(repair=True)
    assert found.outcome is Outcome.UNMENDABLE
    assert "the disk does not take the new store" in found.action
    assert contents(run) == before


def test_what_is_only_in_the_write_ahead_log_is_saved_too(run: Path, check: Check) -> None:
    damage, *_ = DAMAGE["a damaged index"]
    damage(run)
    with closing(RunStore(run)) as store:
        store.append(Notice("only in the log"), 2e9)
        store.commit()
        written = {path.name: path.read_bytes() for path in run.glob(f"{STORE}*")}
    for name, content in written.items():  # as after a kill of the writer
        (run / name).write_bytes(content)
    [finding] = check(repair=True)
    assert finding.outcome is Outcome.MENDED
    assert check() == []
    with RunReader(run) as reader:
        assert Notice("only in the log") in [stored.event for stored in reader.events_after(0)]
    kept = run / f"{STORE}.damaged-1-wal"
    assert kept.read_bytes() == written[f"{STORE}-wal"]


def test_without_a_store_the_run_can_be_resumed(run: Path, check: Check) -> None:
    (run / STORE).unlink()
    check(repair=True)
    info = client.get_run("1")
    assert info.state is RunState.STOPPED
    assert not info.status.checkpoint_step >= 0, "its events are lost"
    assert client.run_checkpoints("1")


def test_a_spec_comes_from_the_list_of_runs_if_an_old_store_has_none(check: Check) -> None:
    run = restore_run("1.0-last")
    spec = client.get_run("1").spec
    run_index.RunIndex().runs()
    (run / SPEC).write_text("")
    [found] = check(repair=True)
    assert "restored from the list of runs" in found.action
    assert client.get_run("1").spec == spec


def test_what_cannot_be_restored_is_said_with_what_to_do(check: Check) -> None:
    run = restore_run("1.0-last")
    (run / SPEC).unlink()
    (run / "recipe.py").unlink()
    found = check(repair=True)
    assert [(each.file, each.outcome) for each in found] == [
        (SPEC, Outcome.UNMENDABLE),
        ("recipe.py", Outcome.UNMENDABLE),
    ]
    assert all(each.action.startswith("Its store holds no copy") for each in found)


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_named(
    run: Path, check: Check
) -> None:
    old = newest_checkpoint(run)
    (checkpoint_files.begin(run, 40) / "weights").write_bytes(b"weights")
    checkpoint_files.publish(
        run, Position(step=40), strategy="torch/single", replicas=1, batch_size=8, parameters=1
    )
    new = newest_checkpoint(run)
    (new / "weights").write_bytes(b"Weights")
    [found] = check(repair=True)
    assert found.file == "checkpoints/step-00000040"
    assert found.problem.endswith("weights is missing or is not what was saved.")
    assert found.action.endswith("not offered any more; step-00000036 is intact.")
    assert newest_checkpoint(run) == old
    assert (run / "checkpoints" / "step-00000040.damaged-1" / "weights").exists()
    assert check() == []


def test_points_beside_an_unfinished_checkpoint_stay(run: Path, check: Check) -> None:
    folder = checkpoint_files.begin(run, 99)
    (folder / checkpoint_files.unrecorded(0)).write_bytes(b"points")
    assert check(repair=True) == []
    assert folder.exists()


def test_leftovers_of_killed_processes_are_removed(run: Path, check: Check) -> None:
    files = [run / ".spec.toml.0a1b2c.tmp", newest_checkpoint(run) / f".{MANIFEST}.0a1b2c.tmp"]
    for file in files:
        file.write_text("half")
    assert check() == [], "a process may be writing them"
    for file in files:
        os.utime(file, (1.0, 1.0))
    (run / ".fsck-abc.tmp").mkdir()
    assert len(check(repair=True)) == 3
    assert check() == []
    assert not any(file.exists() for file in files)


def test_a_lost_module_of_the_recipe_is_restored(check: Check) -> None:
    recorded = RecordedRun()
    module = recorded.folder / "modules" / "mine" / "nets.py"
    module.parent.mkdir(parents=True)
    module.write_text("WIDTH = 3\n")
    (module.parent / "large.py").write_text("#" * (LARGEST_FILE + 1))
    recorded.add(AttemptStarted(1, 1, 1.0))
    keep_files(recorded.store, recorded.folder)
    recorded.add(AttemptStarted(2, 1, 1.0))
    keep_files(recorded.store, recorded.folder)
    recorded.add(RunEnded("stopped", "x"))
    recorded.store.close()
    with closing(sqlite3.connect(recorded.folder / STORE)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM file ORDER BY name")]
    assert names == ["modules/mine/nets.py", "recipe.py", SPEC], "once each; too large: not at all"
    for damage in (
        module.unlink,
        lambda: module.write_bytes(bytes(9)),
        lambda: module.write_text(""),
        lambda: os.truncate(module, 2**40),  # the file has a hole, and takes no room on the disk
    ):
        damage()
        [found] = check(repair=True)
        assert (found.file, found.outcome) == ("modules/mine/nets.py", Outcome.MENDED)
        assert module.read_text() == "WIDTH = 3\n"
    # The user edits the original: what changes here is not what the run is recorded to train.
    for name in ("modules/mine/nets.py", "recipe.py"):
        file = recorded.folder / name
        before = file.read_bytes()
        file.write_bytes(before + b"ANY = 1\n")
        aside = free_name(file)
        [found] = check(repair=True)
        assert (found.file, found.outcome) == (name, Outcome.MENDED)
        assert "is not the file that the last attempt trained" in found.problem
        assert (file.read_bytes(), aside.read_bytes()) == (before, before + b"ANY = 1\n")
    assert check() == []


def test_a_module_that_the_recipe_uses_no_more_is_not_missed(check: Check) -> None:
    recorded = RecordedRun()
    module = recorded.folder / "modules" / "nets.py"
    module.parent.mkdir()
    module.write_text("WIDTH = 3\n")
    recorded.add(AttemptStarted(1, 1, 1.0))
    keep_files(recorded.store, recorded.folder)
    module.unlink()
    recorded.add(AttemptStarted(2, 1, 1.0))
    keep_files(recorded.store, recorded.folder)
    recorded.add(RunEnded("stopped", "x"))
    recorded.store.close()
    assert check(repair=True) == []
    assert not module.exists()


def test_a_store_names_no_file_outside_of_the_run(check: Check, run: Path) -> None:
    in_store(run, "INSERT INTO file VALUES (1, 'modules/../../2.py', x'41')")
    assert check(repair=True) == []
    assert not (run.parent / "2.py").exists()


def test_a_lost_checkpoint_is_named(check: Check, run: Path) -> None:
    lost = newest_checkpoint(run)
    lost.rename(run / "elsewhere")
    [found] = check(repair=True)
    assert (found.file, found.outcome) == (f"checkpoints/{lost.name}", Outcome.UNMENDABLE)
    assert "is not there any more" in found.problem
    assert "The run has no other" in found.action
    (run / "elsewhere").rename(lost)
    assert check() == []


def test_an_active_run_is_left_alone(run: Path, check: Check) -> None:
    (run / SPEC).write_text("")
    recorded = RecordedRun()
    recorded.begin()
    recorded.add_points("train/loss", [1, 2])
    in_store(recorded.folder, "UPDATE series SET count = 5")
    before = contents(recorded.folder)
    with FileLock(run / "supervisor.lock"):
        found = check(repair=True)
    assert {each.run: each.outcome for each in found} == {
        "1": Outcome.LEFT_ALONE,
        "2": Outcome.LEFT_ALONE,
    }
    assert (run / SPEC).read_text() == ""
    assert contents(recorded.folder) == before
    assert process.is_alive(*_supervisor(recorded.folder))


def test_a_run_whose_end_waits_for_the_disk_is_left_alone_with_what_show_says(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_info, "SILENT_SECONDS", 0.0)
    recorded = RecordedRun()
    recorded.begin()
    (recorded.folder / heartbeat.FILE_NAME).touch()
    stopped = msgspec.structs.replace(recorded.store.status, state=RunState.STOPPED)
    inbox = Inbox()
    inbox.answer_status = lambda standstill: StatusAnswer(
        msgspec.msgpack.encode(stopped), "read-only file system", standstill, ()
    )
    with closing(Server(recorded.folder, inbox.connected)):
        [found] = check()
        [trouble] = client.get_run(recorded.id).status.troubles.values()
    assert found.outcome is Outcome.LEFT_ALONE
    assert found.problem == f"The run is stopped, but its supervisor has not ended. {trouble}"
    assert trouble.startswith("This end could not be recorded: read-only file system.")


def _supervisor(folder: Path) -> tuple[int, float]:
    with RunReader(folder) as reader:
        status = reader.status()
    return status.supervisor_pid, status.supervisor_created


def test_a_run_of_a_newer_format_is_left_alone(run: Path, check: Check) -> None:
    in_store(run, "PRAGMA user_version = 200", "UPDATE series SET count = 5")
    before = contents(run)
    [found] = check(repair=True)
    assert found.outcome is Outcome.LEFT_ALONE
    assert found.problem.startswith("Run.sqlite has the format 2.0 of a newer version")
    assert contents(run) == before


def test_a_locked_store_is_not_taken_for_a_damaged_one(
    run: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_store(run, "UPDATE series SET count = 3 WHERE name = 'train/loss'")
    monkeypatch.setattr(
        "engine.repair.store_check.sqlite3.connect",
        lambda *args, connect=sqlite3.connect, **options: connect(*args, timeout=0.1, **options),
    )
    with closing(sqlite3.connect(run / STORE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        [found] = check(repair=True)
        assert found.outcome is Outcome.UNMENDABLE
        assert found.action == "It was not mended: database is locked. Nothing was changed."
        other.execute("ROLLBACK")
    [found] = check(repair=True)
    assert found.outcome is Outcome.MENDED


@pytest.mark.nightly
def test_a_store_that_another_program_keeps_to_itself_is_not_rebuilt(
    run: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (run / STORE).read_bytes()
    with closing(sqlite3.connect(run / STORE, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr("engine.repair.run_check._active", lambda folder: "")
        monkeypatch.setattr("engine.repair.store_check.open_readonly", _impatient)
        [found] = check(repair=True)
    assert found.problem == "The run cannot be checked: database is locked."
    assert (run / STORE).read_bytes() == before
    assert not list(run.glob("*.damaged-*"))


def _impatient(path: Path) -> sqlite3.Connection:
    connection = open_readonly(path)
    connection.execute("PRAGMA busy_timeout = 100")
    return connection


def test_a_folder_that_others_may_write_is_closed(run: Path, check: Check) -> None:
    run.chmod(0o777)
    [found] = check(repair=True)
    assert found.outcome is Outcome.MENDED
    assert run.stat().st_mode & 0o777 == 0o700
    assert check() == []
