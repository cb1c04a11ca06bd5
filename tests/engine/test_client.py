"""What the window and the command line call, as far as it needs no training."""

from __future__ import annotations

import errno
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.client import CannotStart, CommandFailed, NoSuchRun
from engine.messages.channel import Channel, CommandAccepted, Hello, Message, Server
from engine.messages.commands import Pause, Stop
from engine.messages.events import (
    AttemptStarted,
    CheckpointSaved,
    CommandRefused,
    Event,
    RunEnded,
    TrainingStarted,
)
from engine.processes import process
from engine.processes.machine import Machine
from engine.runs import run_info, run_notes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.run_store import FILE_NAME as STORE_FILE
from engine.runs.store.run_store import RunStore
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import FILE_NAME as SPEC_FILE
from engine.system import paths
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.engine.scripts.test_secrets import HUSH
from tests.support.recorded_runs import new_run_folder, this_process_supervises
from tests.support.sentences import sentence

TRAINS = TrainingStarted(0, 10, 3, 1, 1234)
NOBODY = AttemptStarted(1, supervisor_pid=os.getpid(), supervisor_created=1.0)
"""The supervisor had our pid, long ago."""


def spec(**changes: Any) -> RunSpec:
    settings: dict[str, Any] = {
        "recipe": "digits",
        "strategy": "torch/single",
        "devices": ("cpu:0",),
    }
    return RunSpec(**(settings | changes))


def write_run(*events: Event, **changes: Any) -> Path:
    folder = new_run_folder(spec(**changes), recipe="digits")
    if events:
        with closing(RunStore(folder)) as store:
            for event in events:
                store.append(event, 1.0)
    return folder


def test_a_spec_that_can_run_has_no_problems() -> None:
    assert client.check(spec()) == []


@pytest.mark.parametrize(
    ("changes", "field", "phrase"),
    [
        ({"recipe": "digit"}, "recipe", sentence("there-is-no-built-in-recipe", recipe="digit")),
        (
            {"recipe": "my strategy"},
            "recipe",
            sentence("there-is-no-built-in-recipe", recipe="my strategy"),
        ),
        ({"recipe": "/nowhere/x.py"}, "recipe", "There is no recipe file"),
        (
            {"strategy": "torch/dpd"},
            "strategy",
            sentence("there-is-no-strategy", strategy="torch/dpd"),
        ),
        pytest.param(
            {"devices": ("GPU-0",)},
            "devices",
            sentence("gpu-0-is-not-on-this-machine"),
            marks=pytest.mark.processes,
        ),
        ({"batch_size": 0}, "batch_size", "must be at least 1"),
        (
            {"strategy": "torch/ddp", "devices": ("cpu:0", "cpu:1"), "batch_size": 1},
            "batch_size",
            sentence("cannot-be-shared-by-replicas"),
        ),
        ({"settings": {"widht": 3}}, "settings.widht", sentence("digits-has-no-setting-widht")),
        ({"settings": {"width": "x"}}, "settings.width", "must be a whole number"),
    ],
    ids=str,
)
def test_a_spec_with_a_problem_is_reported_and_not_started(
    changes: dict[str, Any], field: str, phrase: str
) -> None:
    wanted = spec(**changes)
    [problem] = client.check(wanted)
    assert problem.field == field
    assert phrase in problem.text
    with pytest.raises(CannotStart, match=r".") as caught:
        client.start(wanted)
    assert caught.value.problems == [problem]
    assert str(caught.value) == problem.text
    assert paths.run_ids() == []


def test_tags_are_in_the_notes_of_a_run_before_its_supervisor_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[run_notes.RunNotes] = []
    monkeypatch.setattr(
        client, "_start_supervisor", lambda folder, **_: found.append(run_notes.read_notes(folder))
    )
    client.start(spec(), ["sweep", "base", "sweep"])
    run_id = client.start(spec())
    assert [notes.tags for notes in found] == [("base", "sweep"), ()]
    assert not (paths.run_folder(run_id) / run_notes.FILE_NAME).exists()


def test_a_framework_without_cuda_is_refused_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = DeviceSnapshot(id="GPU-0", kind="gpu", label="0", name="H100", index=0)
    monkeypatch.setattr(client, "snapshot_once", lambda: Snapshot(time=0.0, devices=(gpu,)))
    builds = {"torch": "It was built without CUDA.", "tf": ""}
    monkeypatch.setattr(client, "gpu_problem", lambda framework, *_: builds[framework])
    [problem] = client.check(spec(devices=("GPU-0",)))
    assert (problem.field, problem.text) == ("devices", builds["torch"])
    keras = spec(recipe="digits_keras", strategy="tf/single", devices=("GPU-0",))
    assert [each.text for each in client.check(keras) if each.field == "devices"] == []
    assert client.check(spec()) == []


def test_a_run_folder_that_cannot_be_written_is_reported(traindeck_home: Path) -> None:
    traindeck_home.write_text("a file where the folder should be")
    with pytest.raises(CannotStart, match=sentence("run-folder-cannot-be-written").pattern):
        client.start(spec())


def test_a_spec_that_cannot_be_written_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(client, "write_spec", full)
    with pytest.raises(CannotStart, match="No space left"):
        client.start(spec())
    assert paths.run_ids() == []


@pytest.mark.parametrize("where", ["name", "recipe"])
def test_settings_that_are_no_text_are_named(where: str, tmp_path: Path) -> None:
    recipe = tmp_path / "a\udcffb.py"
    recipe.write_text("import torch\ndef model(): ...\ndef datasets(): ...\n")
    changes = {"name": "a\udcffb"} if where == "name" else {"recipe": str(recipe)}
    with pytest.raises(CannotStart, match="is not valid UTF-8") as caught:
        client.start(spec(**changes))
    assert "a\\udcffb" in str(caught.value)
    assert paths.run_ids() == []


def test_a_setting_of_a_recipe_that_seems_to_be_a_secret_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "own.py"
    recipe.write_text(
        "import torch\n"
        "def model(api_key='', auth='none', pad_token='', hub='', password=''): ...\n"
        "def datasets(): ...\n"
    )
    own: dict[str, Any] = {"api_key": HUSH, "pad_token": "<p>", "hub": f"redis://:{HUSH}@h/0"}
    with pytest.raises(CannotStart) as caught:
        client.start(spec(recipe=str(recipe), settings=own | {"auth": "none"}))
    assert [each.field for each in caught.value.problems] == ["settings.api_key", "settings.hub"]
    assert 'os.environ["API_KEY"]' in str(caught.value)
    assert HUSH not in str(caught.value)
    assert paths.run_ids() == []
    monkeypatch.setattr(client, "_start_supervisor", lambda folder, **_: None)
    client.start(spec(recipe=str(recipe), settings={"pad_token": "<p>", "password": ""}))
    assert len(paths.run_ids()) == 1


def test_a_run_is_seen_as_it_is() -> None:
    folder = write_run(this_process_supervises(), TRAINS)
    info = client.get_run("1")
    assert (info.id, info.folder, info.spec) == ("1", folder, spec())
    assert info.state is RunState.RUNNING
    assert info.status.parameters == 1234


def test_a_run_whose_supervisor_is_gone_is_interrupted() -> None:
    write_run(NOBODY, TRAINS)
    info = client.get_run("1")
    assert info.status.state is RunState.RUNNING, "nobody wrote this down"
    assert info.state is RunState.INTERRUPTED
    assert "supervisor is gone" in info.reason
    assert "cluster" not in info.reason


def test_an_interruption_of_a_run_over_machines_may_come_from_the_head_of_the_cluster() -> None:
    write_run(NOBODY, TRAINS, devices=("cpu:0", "gpus/cpu:0"))
    assert sentence("head-of-cluster-has-ended") in client.get_run("1").reason


@pytest.mark.parametrize("state", ["finished", "stopped", "failed"])
def test_a_run_that_is_over_stays_what_it_was(state: str) -> None:
    write_run(NOBODY, TRAINS, RunEnded(state, "The reason."))
    info = client.get_run("1")
    assert (info.state, info.reason) == (RunState(state), "The reason.")


def test_a_run_that_is_being_started_is_not_interrupted() -> None:
    write_run()
    assert client.get_run("1").state is RunState.STARTING


def test_a_run_that_never_got_a_supervisor_is_interrupted() -> None:
    long_ago = time.time() - 2 * client.LONGEST_START
    os.utime(write_run(), (long_ago, long_ago))
    assert client.get_run("1").state is RunState.INTERRUPTED


def test_a_read_of_an_old_run_without_a_status_does_not_make_it_new() -> None:
    """SQLite creates and removes files beside a store that it reads."""
    folder = write_run(NOBODY, RunEnded("stopped", "x"))
    with closing(sqlite3.connect(folder / STORE_FILE)) as store, store:
        store.execute("DELETE FROM status")
    long_ago = time.time() - 2 * client.LONGEST_START
    os.utime(folder / SPEC_FILE, (long_ago, long_ago))
    os.utime(folder)
    assert client.get_run("1").state is RunState.INTERRUPTED


@pytest.mark.parametrize("run_id", ["1", "0", "..", "", "../runs/1"])
def test_there_is_no_such_run(run_id: str) -> None:
    with pytest.raises(NoSuchRun, match="There is no run"):
        client.get_run(run_id)


@pytest.mark.parametrize("file", [SPEC_FILE, STORE_FILE])
def test_a_damaged_run_is_reported_in_a_sentence_and_left_out_of_the_list(file: str) -> None:
    write_run(NOBODY)
    damaged = write_run(NOBODY)
    (damaged / file).write_bytes(b"no database and no TOML either = " * 200)
    with pytest.raises(NoSuchRun, match="Run 2 cannot be read: "):
        client.get_run("2")
    assert [info.id for info in client.runs()] == ["1"]


def test_runs_are_listed_newest_first() -> None:
    for _ in range(3):
        write_run(NOBODY)
    assert [info.id for info in client.runs()] == ["3", "2", "1"]


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({}, "digits · single · #1"),
        ({"strategy": "torch/ddp", "devices": ("cpu:0", "cpu:1")}, "digits · ddp × 2 · #1"),
        ({"recipe": "/somewhere/mine.py"}, "mine · single · #1"),
        ({"name": "Big one"}, "Big one · single · #1"),
    ],
)
def test_the_title_of_a_run(changes: dict[str, Any], title: str) -> None:
    write_run(NOBODY, **changes)
    assert client.get_run("1").title == title


def test_the_state_of_a_status_needs_a_living_supervisor() -> None:
    alive = RunStatus(
        state=RunState.PAUSED,
        supervisor_pid=os.getpid(),
        supervisor_created=process.start_time(os.getpid()),
    )
    assert run_info.state_of(alive) is RunState.PAUSED
    assert run_info.state_of(RunStatus(state=RunState.PAUSED)) is RunState.INTERRUPTED


def test_a_run_of_another_machine_is_not_resumed_here_before_it_was_silent_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file system without locks does not tell whether it still trains there."""
    there = AttemptStarted(1, os.getpid(), 1.0, Machine("nodeB", "d2", "another boot", "pid:[1]"))
    write_run(there, TRAINS)
    assert client.get_run("1").state is RunState.INTERRUPTED
    assert client._may_live_elsewhere(client.get_run("1")) == ""
    monkeypatch.setattr(client, "ELSEWHERE_SECONDS", math.inf)
    with pytest.raises(CannotStart, match=sentence("trained-on-nodeb-and-its-last").pattern):
        client.resume("1")


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((NOBODY, RunEnded("finished", "x")), sentence("run-has-finished-all-epochs").pattern),
        (
            (NOBODY, CheckpointSaved("checkpoints/step-5", 5, 0, 9, 0.1), RunEnded("stopped", "x")),
            sentence("run-has-no-checkpoint-to-resume").pattern,
        ),
    ],
)
def test_a_run_that_cannot_resume_is_reported(events: tuple[Event, ...], said: str) -> None:
    write_run(*events)
    with pytest.raises(CannotStart, match=said):
        client.resume("1")


def test_an_active_run_cannot_resume() -> None:
    write_run(this_process_supervises(), TRAINS)
    with pytest.raises(CannotStart, match=sentence("run-is-running-stop-it-first").pattern):
        client.resume("1")


def test_a_run_that_is_over_takes_no_commands() -> None:
    write_run(NOBODY, RunEnded("finished", "x"))
    with pytest.raises(CommandFailed, match=sentence("run-is-not-active-it-takes").pattern):
        client.send("1", Pause())


@pytest.fixture
def program(processes: None) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for a signal."""
    code = "import time; print('waits', flush=True); time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        made.stdout.readline()
        yield made
        made.kill()


only_signals = pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGTERM to ask with")


@only_signals
def test_a_stop_that_cannot_reach_the_supervisor_becomes_a_signal(
    program: subprocess.Popen[str],
) -> None:
    write_run(AttemptStarted(1, program.pid, process.start_time(program.pid)), TRAINS)
    with pytest.raises(CommandFailed, match=sentence("is-running-but-takes-no-commands").pattern):
        client.send("1", Pause())
    with pytest.raises(client.StoppedBySignal, match=f"process {program.pid}, was asked by a sign"):
        client.send("1", Stop())
    assert program.wait(60.0) == -signal.SIGTERM


@only_signals
def test_no_signal_goes_to_another_process_with_the_number_of_the_supervisor(
    program: subprocess.Popen[str],
) -> None:
    write_run(AttemptStarted(1, program.pid, supervisor_created=1.0), TRAINS)
    with pytest.raises(CommandFailed, match=sentence("is-not-active-it-takes").pattern):
        client.send("1", Stop())
    assert program.poll() is None


@contextmanager
def supervisor(answer: Callable[[Channel, Message], None]) -> Iterator[None]:
    """A stand-in for run 1's supervisor, which answers one command."""

    def take(hello: Hello, channel: Channel) -> None:
        assert hello.rank == -1
        with closing(channel):
            answer(channel, channel.receive())

    with closing(Server(write_run(this_process_supervises(), TRAINS), take)):
        yield


def test_a_command_that_is_taken_gives_the_number_to_wait_from() -> None:
    taken = []

    def accept(channel: Channel, command: Message) -> None:
        taken.append(command)
        channel.send(CommandAccepted(41))

    with supervisor(accept):
        assert client.send("1", Pause()) == 41
    assert taken == [Pause()]


def test_the_text_of_a_refusal_is_passed_on() -> None:
    with (
        supervisor(lambda channel, _: channel.send(CommandRefused("Pause", "It is paused."))),
        pytest.raises(CommandFailed, match=r"^It is paused\.$"),
    ):
        client.send("1", Pause())


def test_a_supervisor_that_ends_before_it_answers_is_reported() -> None:
    with (
        supervisor(lambda channel, _: None),
        pytest.raises(CommandFailed, match="Run 1 did not answer"),
    ):
        client.send("1", Pause())


def test_a_supervisor_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LONGEST_ANSWER", 0.3)

    def hold(channel: Channel, _: Message) -> None:
        with pytest.raises(EOFError):
            channel.receive()  # until the caller gives up

    with supervisor(hold), pytest.raises(CommandFailed, match="Run 1 did not answer"):
        client.send("1", Pause())
