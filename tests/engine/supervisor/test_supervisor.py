"""Restarts, commands, troubles of the disk and the queue of a run whose workers follow a script."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from engine.diagnosis import process_memory
from engine.diagnosis.device_metrics import PROCESS_MEMORY
from engine.files import file_sync
from engine.messages.channel import Channel, CommandAccepted, Flush, Flushed, Message, StatusAnswer
from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    AttemptStarted,
    CommandReceived,
    CommandRefused,
    Event,
    Notice,
    Paused,
    Queued,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    Trouble,
    WorkerFailed,
    WorkerStarted,
)
from engine.messages.heartbeat import last_beat
from engine.runs import device_queue
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME
from engine.runs.store.store_reader import RunReader
from engine.spec import recipe_copy, spec_file
from engine.supervisor import supervisor
from engine.supervisor.inbox import InboxItem, MachineLost, MemoryMeasured, MessageReceived, Told
from engine.supervisor.supervisor import MOST_LOSSES, PASSING_SECONDS, Supervisor
from tests.engine.supervisor.conftest import MakeRun
from tests.support.recorded_runs import save_checkpoint, this_process_supervises
from tests.support.runs import delete_folder
from tests.support.scripted_pool import Line, Worker, dies, hangs, loses_channel, raises, says
from tests.support.scripted_run import FULL, LOCKED, READ_ONLY, ScriptedRun
from tests.support.sentences import sentence

STEPS = list(range(1, 31))


def kinds(run: ScriptedRun, *wanted: type[Event]) -> list[str]:
    return [type(event).__name__ for event in run.events(*wanted)]


# Restarts


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_is_followed_by_an_attempt_from_the_newest_checkpoint(
    make_run: MakeRun, rank: int
) -> None:
    run = make_run("torch/ddp", 2, max_restarts=1, checkpoint_steps=10)
    run.script(25, dies(-9), rank=rank)
    assert run.train() == RunEnded("finished", "All 30 steps are done.")
    [restarting] = run.restarts()
    assert (restarting.number, restarting.most) == (1, 1)
    assert (restarting.failure.rank, restarting.failure.signal) == (rank, "SIGKILL")
    [rewound] = run.events(Rewound)
    assert (rewound.step, rewound.checkpoint) == (20, "step-00000020")
    assert run.steps() == STEPS
    order = ["AttemptStarted", "Restarting", "AttemptStarted", "Rewound", "RunEnded"]
    assert kinds(run, AttemptStarted, Restarting, Rewound, RunEnded) == order
    assert [pool.environment["TRAINDECK_RESUME"] for pool in run.pools if pool.environment] == [
        "",
        "step-00000020",
    ]


@pytest.mark.parametrize("most", [0, 1, 3])
def test_there_are_as_many_restarts_as_are_allowed(make_run: MakeRun, most: int) -> None:
    run = make_run(max_restarts=most, checkpoint_steps=5)
    for attempt in range(1, 6):
        run.script(5 * attempt + 1, raises(f"ValueError: {attempt}"), attempt=attempt)
    ended = run.train()
    assert ended.state == "failed"
    assert f"ValueError: {most + 1}" in ended.reason
    assert ("restarted" in ended.reason) == bool(most)
    assert [(each.number, each.most) for each in run.restarts()] == [
        (number, most) for number in range(1, most + 1)
    ]
    assert run.status.attempt == most + 1
    assert run.steps() == list(range(1, 5 * (most + 1) + 1))


def test_the_same_failure_at_the_same_step_is_not_restarted_again(make_run: MakeRun) -> None:
    """Without a checkpoint it starts at step 0; the second failure shows that this is no help."""
    run = make_run(max_restarts=5)
    for attempt in (1, 2):
        run.script(15, raises("ValueError: no more"), attempt=attempt)
    ended = run.train()
    assert sentence("it-fails-every-time-after-step-14") in ended.reason
    assert len(run.restarts()) == 1
    assert run.events(Rewound) == [Rewound(0, "")]
    assert run.steps() == STEPS[:14]


@pytest.mark.parametrize("attempt", [1, 2])
def test_only_a_first_attempt_must_do_a_step_to_be_restarted(
    make_run: MakeRun, attempt: int
) -> None:
    """A recipe that cannot start fails each time; a later attempt may meet a passing trouble."""
    run = make_run(max_restarts=5, checkpoint_steps=5)
    if attempt == 2:
        run.script(7, dies(-9))
    run.script(5 if attempt == 2 else 0, dies(3), attempt=attempt)
    ended = run.train()
    assert ended.state == ("failed" if attempt == 1 else "finished")
    assert len(run.restarts()) == (0 if attempt == 1 else 2)


@pytest.mark.parametrize("damage", ["content", "manifest"])
def test_a_damaged_checkpoint_is_passed_over(make_run: MakeRun, damage: str) -> None:
    run = make_run(max_restarts=1, checkpoint_steps=10)

    def spoil(_: Worker) -> None:
        newest = checkpoint_files.folders(run.folder)[20]
        if damage == "manifest":
            (newest / checkpoint_files.MANIFEST).unlink()
        else:
            file = newest / "rank0" / "model.safetensors"
            file.write_bytes(bytes(file.stat().st_size))

    run.script(25, spoil)
    run.script(25, dies(-9))
    assert run.train().state == "finished"
    assert [each.step for each in run.events(Rewound)] == [10]
    assert run.steps() == STEPS


def test_checkpoints_that_cannot_be_read_are_not_taken_for_none(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    run = make_run(max_restarts=1, checkpoint_steps=10)
    run.script(15, lambda _: monkeypatch.setattr(checkpoint_files, "verify", lost))
    run.script(15, lambda _: monkeypatch.setattr(checkpoint_files, "folders", lost))
    run.script(15, dies(-9))
    ended = run.train()
    assert ended.state == "failed"
    assert ended.reason.startswith(sentence("checkpoints-could-not-be-read-stale"))
    assert not run.events(Rewound)
    assert run.steps() == STEPS[:14]


def test_a_copy_of_the_recipe_that_has_changed_does_not_train(
    make_run: MakeRun, tmp_path: Path
) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text("import torch\ndef model(): ...\ndef datasets(): ...\n")
    run = make_run(recipe=str(recipe), max_restarts=1)
    run.keep_files()

    def change(_: Worker) -> None:
        copy = run.folder / recipe_copy.RECIPE
        copy.write_text(copy.read_text() + "# changed\n")

    run.script(5, change)
    run.script(5, dies(-9))
    ended = run.train()
    assert ended.state == "failed"
    assert recipe_copy.RECIPE in ended.reason
    assert len(run.restarts()) == 1
    assert run.steps() == STEPS[:4]


def test_a_process_that_cannot_be_killed_keeps_its_device_and_the_run_from_a_restart(
    make_run: MakeRun,
) -> None:
    run = make_run("torch/ddp", 2, max_restarts=3)
    run.pools_have(can_be_killed=False)
    run.script(5, raises("ValueError: no"))
    run.script(5, hangs, rank=1)
    ended = run.train()
    assert (ended.state, run.status.attempt) == ("failed", 1)
    assert ended.failure is not None
    assert ended.failure.rank == 0
    assert ended.reason.endswith("ValueError: no"), "no word of a restart"


@pytest.mark.parametrize("at", ["search", "start"])
def test_a_run_that_is_restarted_can_be_stopped(make_run: MakeRun, at: str) -> None:
    run = make_run(max_restarts=3, checkpoint_steps=10)
    run.script(15, dies(-9))
    if at == "search":
        run.search_seconds = 600.0
        run.script(15, lambda _: run.clock.after(60.0, lambda: run.command(Stop())))
    else:
        run.script(10, hangs, attempt=2)
        run.commands(10, Stop(), attempt=2)
    ended = run.train()
    assert (ended.state, ended.failure) == ("stopped", None)
    step = 14 if at == "search" else 10
    assert ended.reason == sentence("stopped-before-training-went", step=step)
    assert run.status.attempt == 2
    assert len([pool for pool in run.pools if pool.workers]) == (1 if at == "search" else 2)


def test_a_worker_that_dies_before_a_stop_is_a_failure_and_no_restart(make_run: MakeRun) -> None:
    run = make_run(max_restarts=3)
    run.script(15, dies(-9))
    run.commands(15, Stop())
    assert run.train().state == "failed"
    assert not run.restarts()


def test_a_worker_that_lost_its_connection_is_restarted_and_loses_no_step(
    make_run: MakeRun,
) -> None:
    run = make_run("torch/ddp", 2, max_restarts=1)
    run.script(7, loses_channel, rank=1)
    assert run.train().state == "finished"
    [restarting] = run.restarts()
    assert restarting.failure.rank == 1
    [rewound] = run.events(Rewound)
    assert rewound.step >= 7
    assert run.steps() == STEPS


def shrunk(rank: int) -> Shrunk:
    return Shrunk(rank, 7, "Rank 1 ran out of memory.", 2, 1, 32, 2, restarts=True)


@pytest.mark.parametrize("on_oom", ["shrink", "stop"])
def test_a_restart_with_smaller_parts_is_no_restart_of_the_user_s(
    make_run: MakeRun, on_oom: str
) -> None:
    run = make_run("torch/ddp", 2, on_oom=on_oom, checkpoint_steps=5)
    report = WorkerFailed(1, "OutOfMemoryError", "", "", False, shrunk=shrunk(1))
    run.script(7, says(report), rank=1)
    run.script(7, dies(1), rank=1)
    ended = run.train()
    assert not run.restarts()
    if on_oom == "stop":
        assert ended.state == "failed"
        return
    assert ended.state == "finished"
    assert run.events(Shrunk) == [shrunk(1)]
    assert run.pools[-1].environment["TRAINDECK_ACCUMULATION"] == "2"
    assert [each.step for each in run.events(Rewound)] == [5]
    assert run.steps() == STEPS


def test_changed_settings_that_fail_before_a_step_are_taken_back(make_run: MakeRun) -> None:
    run = make_run()
    run.commands(5, Stop())
    run.train()
    changed = msgspec.structs.replace(run.spec, batch_size=7)
    with spec_file.replaced_spec(run.folder, changed, run.status.attempt + 1):
        pass
    again = run.again()
    again.script(5, raises("ValueError: no"), attempt=2)
    ended = again.train("step-00000005")
    assert ended.reason.endswith(sentence("previous-settings-were-restored"))
    assert spec_file.read_spec(run.folder) == run.spec


@pytest.mark.parametrize(
    ("resume", "first", "rewound"),
    [
        ("step-00000005", 6, [Rewound(5, "step-00000005", 1)]),
        (checkpoint_files.BEGINNING, 1, [Rewound(0, "")]),
    ],
)
def test_a_resumed_run_goes_on_from_its_checkpoint_or_begins_again(
    make_run: MakeRun, resume: str, first: int, rewound: list[Rewound]
) -> None:
    run = make_run()
    run.script(8, dies(-9))
    save_checkpoint(run.folder, 5)
    assert run.train().state == "failed"
    again = run.again()
    if resume == checkpoint_files.BEGINNING:
        shutil.rmtree(run.folder / checkpoint_files.FOLDER)
    assert again.train(resume).state == "finished"
    assert again.steps() == STEPS
    assert [(each.step, each.checkpoint) for each in again.events(Rewound)] == [
        (each.step, each.checkpoint) for each in rewound
    ]


# Other machines


class Machines:
    """Stands in for `MachineSearch`: the machine is missing for a while."""

    missing_for = 0.0
    found_then: tuple[str, ...] = ("gpus",)

    def __init__(self, run: ScriptedRun) -> None:
        self.run = run
        self.until = 0.0
        self.fewest = -1

    def __call__(self, machines: list[str], fewest: int) -> Machines:
        assert machines == ["gpus"]
        self.fewest = fewest
        self.until = self.run.clock.monotonic() + self.missing_for
        return self

    def is_alive(self) -> bool:
        return self.run.clock.monotonic() < self.until

    @property
    def missing(self) -> tuple[str, ...]:
        return ("gpus",) if self.is_alive() else ()

    @property
    def found(self) -> tuple[str, ...] | None:
        return None if self.is_alive() else self.found_then

    def end(self) -> None: ...


BOTH = ("cpu:0", "gpus/cpu:0")


@pytest.fixture
def spread(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedRun]:
    """Makes runs over two machines."""

    def make(**changes: Any) -> ScriptedRun:
        run = make_run("torch/ddp", BOTH, checkpoint_steps=10, **changes)
        run.machines = Machines(run)
        monkeypatch.setattr(supervisor, "MachineSearch", run.machines)
        return run

    return make


def loses_machine(worker: Worker) -> None:
    worker.pool.inbox.put(MachineLost("gpus", "it has left the cluster"))


def test_a_lost_machine_is_waited_for_and_is_no_restart_of_the_user_s(
    spread: Callable[..., ScriptedRun],
) -> None:
    run = spread()
    run.machines.missing_for = 100.0
    run.script(15, loses_machine)
    assert run.train().state == "finished"
    assert [event.text for event in run.events(Notice)] == [sentence("machine-gpus-was-lost")]
    waited, over = run.events(Queued)
    assert waited.reason.startswith(sentence("waits-for-gpus-which-is-lost"))
    assert over == Queued((), "")
    assert not run.restarts()
    assert run.steps() == STEPS
    assert len(run.pools[-1].workers) == 2


def test_with_min_machines_the_run_goes_on_without_a_machine(
    spread: Callable[..., ScriptedRun],
) -> None:
    run = spread(min_machines=1)
    run.machines.found_then = ()
    run.script(15, loses_machine)
    assert run.train().state == "finished"
    assert run.machines.fewest == 1
    assert run.events(Notice)[-1].text == sentence("run-goes-on-on-this-machine")
    assert len(run.pools[-1].workers) == 1
    assert run.steps() == STEPS


def test_a_machine_that_comes_back_takes_part_after_the_next_restart(
    spread: Callable[..., ScriptedRun],
) -> None:
    run = spread(min_machines=1, max_restarts=1)
    run.machines.found_then = ()
    run.script(15, loses_machine)
    run.script(25, lambda _: setattr(run.machines, "found_then", ("gpus",)), attempt=2)
    run.script(25, dies(-9), attempt=2)
    assert run.train().state == "finished"
    assert [len(pool.workers) for pool in run.pools if pool.workers] == [2, 1, 2]


def test_a_machine_that_is_lost_in_turn_without_a_step_ends_the_run(
    spread: Callable[..., ScriptedRun],
) -> None:
    run = spread()
    run.script(15, loses_machine)
    for attempt in range(2, 10):
        run.script(10, loses_machine, attempt=attempt)
    ended = run.train()
    assert ended.state == "failed"
    assert run.status.attempt == 1 + MOST_LOSSES


def test_the_memory_of_processes_on_other_machines_is_a_curve(
    spread: Callable[..., ScriptedRun],
) -> None:
    run = spread()
    measured = MemoryMeasured(process_memory.Measurement(1.0, 7 * 2**20), "gpus")
    run.script(5, lambda _: run.inbox.put(measured))
    run.train()
    with RunReader(run.folder) as reader:
        points = reader.points_after("device/gpus/cpu/process_memory", 0)
    assert points.value.tolist() == [7.0 * 2**20]


def test_a_run_that_waits_for_a_machine_can_be_stopped(spread: Callable[..., ScriptedRun]) -> None:
    run = spread()
    run.machines.missing_for = 1e5
    run.script(15, loses_machine)
    run.script(15, lambda _: run.clock.after(60.0, lambda: run.command(Stop())))
    ended = run.train()
    assert (ended.state, ended.failure) == ("stopped", None)
    assert len([pool for pool in run.pools if pool.workers]) == 1


# Commands


def test_commands_are_answered_recorded_and_passed_to_rank_0(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2)
    run.commands(5, SaveCheckpoint(), Pause())
    run.script(5, lambda _: run.clock.after(10.0, lambda: run.command(Resume())))
    run.commands(8, EmptyCache())
    assert run.train().state == "finished"
    names = ["SaveCheckpoint", "Pause", "Resume", "EmptyCache"]
    received = run.events(CommandReceived)
    assert [event.command for event in received] == names
    with RunReader(run.folder) as reader:
        numbers = [
            each.seq for each in reader.events_after(0) if isinstance(each.event, CommandReceived)
        ]
    assert run.answers == [CommandAccepted(number) for number in numbers]
    assert kinds(run, Paused, Resumed) == ["Paused", "Resumed"]
    assert run.saved_steps() == [5]
    assert run.steps() == STEPS


@pytest.mark.parametrize(
    ("moment", "command", "why"),
    [
        (0, Pause(), "still starting"),
        (5, Resume(), "not paused"),
        (5, Pause(free_devices=True), sentence("cpu-devices-have-no-memory")),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_with_a_sentence(
    make_run: MakeRun, moment: int, command: Command, why: str
) -> None:
    run = make_run()
    run.commands(moment, command)
    assert run.train().state == "finished"
    [refused] = run.answers
    assert isinstance(refused, CommandRefused)
    assert why in refused.reason
    assert run.events(CommandRefused) == [refused]


def test_no_command_is_accepted_while_the_run_ends(make_run: MakeRun) -> None:
    run = make_run()
    run.pools_have(save_seconds=5.0)
    run.commands(5, Stop(), SaveCheckpoint(), Stop())
    assert run.train().state == "stopped"
    accepted = [isinstance(answer, CommandAccepted) for answer in run.answers]
    assert accepted == [True, False, True]


def test_the_machine_may_sleep_during_a_pause_only(make_run: MakeRun) -> None:
    run = make_run()
    run.commands(5, Pause())
    run.script(5, lambda _: run.clock.after(10.0, lambda: run.command(Resume())))
    run.train()
    assert run.supervisor is not None
    keeps = [each for _, (each,) in cast(Any, run.supervisor)._wakefulness.calls]
    changes = [each for before, each in zip([None, *keeps], keeps, strict=False) if each != before]
    assert changes == [True, False, True, False]


def test_without_keep_awake_the_machine_may_sleep(make_run: MakeRun) -> None:
    run = make_run(keep_awake=False)
    run.train()
    assert run.supervisor is not None
    assert not any(each for _, (each,) in cast(Any, run.supervisor)._wakefulness.calls)


def test_what_a_thread_says_is_recorded(make_run: MakeRun) -> None:
    run = make_run()
    run.script(5, lambda _: run.inbox.put(Told("The log is not complete.")))
    run.train()
    assert run.events(Notice) == [Notice("The log is not complete.")]


def test_an_error_of_the_supervisor_is_told_once_the_work_is_saved(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(max_restarts=3)

    def fail(_: object) -> None:
        raise ZeroDivisionError("division by zero")

    run.script(5, lambda _: monkeypatch.setattr(run.admission, "release_freed", fail))
    ended = run.train()
    assert ended.state == "failed"
    assert ended.reason.startswith(sentence("supervisor-of-run-failed-division-by-zero-stopped"))
    assert ended.reason.endswith("with a checkpoint saved.")
    assert run.saved_steps() == [run.status.step]
    assert run.status.attempt == 1


def test_an_error_of_the_supervisor_that_lasts_still_ends_the_workers(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    run.script(5, lambda _: monkeypatch.setattr(Supervisor, "_handle", fail))
    assert run.train().reason.startswith(sentence("supervisor-of-run-failed-division-by-zero"))
    assert not any(worker.is_alive for worker in run.pools[0].workers)


def test_a_supervisor_that_may_start_no_thread_ends_its_run_with_the_reason(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    run = make_run()
    monkeypatch.setattr(supervisor, "TelemetryStream", refuse)
    ended = run.train()
    assert ended.state == "failed"
    assert ended.reason == sentence("supervisor-of-run-failed-cannot-start")
    assert not any(worker.is_alive for worker in run.pools[0].workers)


# The store and its disk


def test_the_first_step_can_be_read_before_a_commit_is_due(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "COMMIT_SECONDS", 1e6)
    run = make_run()
    read: list[int] = []

    def look(_: Worker) -> None:
        with RunReader(run.folder) as reader:
            read.append(reader.status().step)

    run.script(2, look)
    run.script(2, dies(-9))
    monkeypatch.setattr(supervisor, "EXIT_SECONDS", 0.0)
    run.clock.after(60.0, lambda: monkeypatch.setattr(supervisor, "COMMIT_SECONDS", 0.1))
    run.train()
    assert read == [1]


@pytest.mark.parametrize("on_disk_full", ["pause", "stop"])
def test_a_full_disk_pauses_or_stops_the_training_and_loses_nothing(
    make_run: MakeRun, on_disk_full: str
) -> None:
    run = make_run(on_disk_full=on_disk_full)
    run.disk(5, FULL)
    asked: list[StatusAnswer] = []
    run.script(5, lambda _: run.clock.after(60.0, lambda: asked.append(run.buffer.answer(0.0))))
    run.script(5, lambda _: run.clock.after(61.0, lambda: run.command(Resume())))
    run.script(5, lambda _: run.clock.after(90.0, lambda: run.refuse(None)))
    run.script(5, lambda _: run.clock.after(120.0, lambda: run.command(Resume())))
    ended = run.train()
    if on_disk_full == "stop":
        assert ended.state == "stopped"
        assert ended.reason.startswith(sentence("run-folder-could-not-be-written"))
        run.refuse(None)
        assert run.buffer.close()
        assert run.events(RunEnded) == [ended]
        assert run.steps() == STEPS[: run.status.step]
        return
    assert ended.state == "finished"
    refused, accepted = run.answers
    assert isinstance(refused, CommandRefused)
    assert "make room, then resume" in refused.reason
    assert isinstance(accepted, CommandAccepted)
    assert asked[0].write_problem == "the disk is full"
    told = msgspec.msgpack.decode(asked[0].status)
    assert told["state"] == "paused"
    raised, over = run.events(Trouble)
    assert (raised.kind, raised.raised, over.raised) == ("disk", True, False)
    assert sentence("disk-is-full-training-is-paused") in raised.text
    assert over.text.endswith("nothing was lost.")
    assert run.steps() == STEPS


@pytest.mark.parametrize("refusal", [READ_ONLY, LOCKED], ids=["read-only", "locked"])
@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_a_disk_that_refuses_for_a_moment_disturbs_nothing(
    make_run: MakeRun, refusal: tuple[str, int], seconds: float
) -> None:
    run = make_run(steps=100)
    run.disk(5, refusal, seconds)
    assert run.train().state == "finished"
    assert not run.events(Paused)
    assert run.steps() == list(range(1, 101))


@pytest.mark.parametrize("refusal", [READ_ONLY, LOCKED], ids=["read-only", "locked"])
@pytest.mark.parametrize("by_user", [False, True], ids=["", "the user pauses"])
def test_a_trouble_of_the_disk_that_lasts_pauses_and_the_training_goes_on_by_itself(
    make_run: MakeRun, refusal: tuple[str, int], by_user: bool
) -> None:
    run = make_run(steps=200)
    if by_user:
        run.commands(4, Pause())
    run.script(4, lambda _: run.clock.after(0.3, lambda: run.refuse(refusal)))
    run.script(4, lambda _: run.clock.after(0.4, lambda: run.inbox.put(Told("Something."))))
    run.script(4, lambda _: run.clock.after(60.0, lambda: run.refuse(None)))
    run.script(4, lambda _: run.clock.after(300.0, lambda: run.command(Resume())))
    assert run.train().state == "finished"
    [paused], [resumed] = run.events(Paused), run.events(Resumed)
    times = {type(event): when for when, event in run.happened()}
    lasted = times[Resumed] - times[Paused]
    assert lasted > 200 if by_user else lasted < 60
    if not by_user:
        raised = next(when for when, e in run.happened() if isinstance(e, Trouble))
        assert PASSING_SECONDS <= times[Paused] - raised < PASSING_SECONDS + 2
    assert paused.step == resumed.step
    assert [event.raised for event in run.events(Trouble)] == [True, False]
    assert run.steps() == list(range(1, 201))


@pytest.mark.parametrize(
    "error", [errno.EACCES, errno.EPERM, errno.ESTALE, errno.EIO, errno.ENOTCONN]
)
def test_files_that_are_out_of_reach_end_no_training(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """As those of a file server that does not answer, or that wants a new ticket."""
    run = make_run(steps=200)
    reached = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        if path == run.folder / FILE_NAME and 60.0 < run.clock.monotonic() - begun < 120.0:
            raise OSError(error, os.strerror(error))
        return reached(path, **options)

    begun = run.clock.monotonic() - 59.0
    monkeypatch.setattr(Path, "stat", stat)
    assert run.train().state == "finished"
    raised, over = run.events(Trouble)
    assert f"cannot be written: {os.strerror(error).lower()}." in raised.text
    assert (raised.raised, over.raised) == (True, False)
    assert kinds(run, Paused, Resumed) == ["Paused", "Resumed"]
    assert run.steps() == list(range(1, 201))


def test_a_restart_while_the_disk_refuses_is_recorded_later(make_run: MakeRun) -> None:
    run = make_run(max_restarts=1, checkpoint_steps=5)
    run.disk(8, LOCKED, 3.0)
    run.script(8, dies(-9))
    assert run.train().state == "finished"
    assert kinds(run, AttemptStarted, Restarting, Rewound) == [
        "AttemptStarted",
        "Restarting",
        "AttemptStarted",
        "Rewound",
    ]
    assert run.steps() == STEPS


def test_the_end_of_a_run_that_the_disk_refuses_is_kept_in_memory(make_run: MakeRun) -> None:
    run = make_run()
    run.disk(29, LOCKED)
    ended = run.train()
    assert ended.state == "finished"
    assert run.buffer.is_behind
    assert msgspec.msgpack.decode(run.buffer.answer(0.0).status)["state"] == "finished"
    run.refuse(None)
    assert run.buffer.close()
    assert run.events(RunEnded) == [ended]
    assert run.steps() == STEPS


def test_a_heartbeat_is_one_only_while_the_store_tells_what_happens(make_run: MakeRun) -> None:
    run = make_run()
    beats: list[bool] = []

    def look() -> None:
        file = run.folder / "heartbeat"
        beats.append(file.exists())
        file.unlink(missing_ok=True)

    run.script(5, lambda _: run.clock.after(0.5, look))
    run.disk(6, FULL, 60.0)
    run.script(6, lambda _: run.clock.after(5.0, look))
    run.script(6, lambda _: run.clock.after(50.0, look))
    run.script(6, lambda _: run.clock.after(70.0, lambda: run.command(Resume())))
    run.train()
    assert beats == [True, False, False]
    assert last_beat(run.folder) > 0


def test_a_deleted_folder_ends_the_run_and_no_restart_is_tried(make_run: MakeRun) -> None:
    run = make_run(max_restarts=5)
    run.script(5, lambda _: delete_folder(run.folder))
    ended = run.train()
    assert ended.state == "failed"
    assert sentence("was-deleted-or-moved-nothing-more") in ended.reason
    assert not any(worker.is_alive for worker in run.pools[0].workers)
    assert len([pool for pool in run.pools if pool.workers]) == 1


def test_another_store_in_the_place_of_the_run_s_own_ends_it(make_run: MakeRun) -> None:
    run = make_run()

    def exchange(_: Worker) -> None:
        store = run.folder / FILE_NAME
        store.rename(run.folder / "old")
        shutil.copy(run.folder / "old", store)

    run.script(5, exchange)
    assert "was deleted or moved" in run.train().reason


@pytest.mark.parametrize("above", [0, 2], ids=["run", "home"])
def test_a_renamed_folder_ends_the_run_which_keeps_what_it_has(
    make_run: MakeRun, above: int
) -> None:
    run = make_run(max_restarts=5)
    old = [run.folder, *run.folder.parents][above]
    new = old.with_name("elsewhere")
    run.script(5, lambda _: old.rename(new))
    ended = run.train()
    assert sentence("was-deleted-or-moved-move-it-back", folder=run.folder) in ended.reason
    assert not old.exists()
    with RunReader(new / run.folder.relative_to(old)) as reader:
        assert reader.status().state is RunState.FAILED
    new.rename(old)


def test_a_flush_is_answered_when_the_disk_has_what_came_before_it_and_nothing_waits_for_that(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_may_answer, answered = threading.Event(), threading.Event()
    answers: list[Message] = []
    sync = file_sync._sync

    def wait(descriptor: int) -> None:
        assert disk_may_answer.wait(60)
        sync(descriptor)

    def answer(message: Message) -> None:
        answers.append(message)
        answered.set()

    run = make_run()
    line = cast(Channel, Line(answer))

    def flush(_: Worker) -> None:
        monkeypatch.setattr(file_sync, "_sync", wait)
        run.inbox.put(MessageReceived(0, line, Flush(7)))

    def look(_: Worker) -> None:
        with RunReader(run.folder) as reader:
            assert reader.status().step > 5, "readers see it already"
        assert not answers
        disk_may_answer.set()
        assert answered.wait(60)

    run.script(5, flush)
    run.script(10, look)
    assert run.train().state == "finished"
    assert answers == [Flushed(7)]


def test_the_memory_of_a_run_on_the_cpu_is_known_at_its_first_step(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that is over before the telemetry has taken its first snapshot."""
    measured, measures = threading.Event(), Supervisor._measure_memory
    run = make_run()
    put = run.inbox.put

    def put_and_tell(item: InboxItem) -> None:
        put(item)
        if isinstance(item, MemoryMeasured):
            measured.set()

    monkeypatch.setattr(run.inbox, "put", put_and_tell)
    monkeypatch.setattr(process_memory, "memory_of", lambda workers: 7 * len(workers))
    monkeypatch.setattr(Supervisor, "_measure_memory", measures)

    def wait(_: Worker) -> None:
        assert measured.wait(60)

    run.script(3, wait)
    run.train()
    with RunReader(run.folder) as reader:
        points = reader.points_after(PROCESS_MEMORY, 0)
    assert points.value.tolist()[0] == 7.0


# The queue


def ahead(run: ScriptedRun, devices: tuple[str, ...]) -> device_queue.Ticket:
    own = this_process_supervises()
    ticket = device_queue.Ticket("99", own.supervisor_pid, own.supervisor_created, devices, devices)
    device_queue.enter(ticket)
    return ticket


def test_a_run_trains_once_no_run_ahead_claims_one_of_its_devices(make_run: MakeRun) -> None:
    run = make_run("torch/ddp", 2, queue="always")
    other = ahead(run, ("cpu:1", "cpu:2"))
    run.clock.after(60.0, lambda: device_queue.leave(other))
    asked: list[Any] = []
    run.clock.after(30.0, lambda: asked.append((run.status.state, len(run.pools))))
    assert run.train().state == "finished"
    assert asked == [(RunState.QUEUED, 0)]
    queued, turn = run.events(Queued)
    assert queued.ahead == ("99",)
    assert "cpu:1" in queued.reason
    assert turn == Queued((), "")
    times = {type(event): when for when, event in run.happened()}
    assert 0 <= times[WorkerStarted] - run.happened()[0][0] - 60.0 < 1.0
    assert device_queue.read() == []


def test_a_run_on_other_devices_does_not_wait(make_run: MakeRun) -> None:
    run = make_run(queue="always")
    ahead(run, ("cpu:1",))
    assert run.train().state == "finished"
    assert not run.events(Queued)


def test_a_run_that_is_stopped_in_the_queue_starts_no_worker(make_run: MakeRun) -> None:
    run = make_run(queue="always")
    ahead(run, ("cpu:0",))
    run.clock.after(30.0, lambda: run.command(Pause()))
    run.clock.after(40.0, lambda: run.command(Stop()))
    ended = run.train()
    assert ended.reason == sentence("stopped-in-queue-before-it-began")
    assert [type(answer) for answer in run.answers] == [CommandRefused, CommandAccepted]
    assert run.pools == []
    assert [ticket.run for ticket in device_queue.read()] == ["99"]


def test_a_run_whose_folder_is_deleted_in_the_queue_ends(make_run: MakeRun) -> None:
    run = make_run(queue="always")
    ahead(run, ("cpu:0",))
    run.clock.after(30.0, lambda: delete_folder(run.folder))
    assert run.train().state == "stopped"


GPU = "GPU-11111111-2222-3333-4444-555555555555"


def test_a_pause_that_frees_its_devices_lets_the_next_run_in(make_run: MakeRun) -> None:
    run = make_run(devices=(GPU,))
    run.commands(5, Pause(free_devices=True))
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([ticket.place for ticket in device_queue.read()])

    run.script(5, lambda _: run.clock.after(10.0, look))
    run.script(5, lambda _: run.clock.after(20.0, lambda: run.command(Resume())))
    run.script(6, lambda _: look())
    assert run.train().state == "finished"
    assert seen == [["aside"], ["inside"]]
    assert [event.freed_devices for event in run.events(Paused)] == [True]


def test_a_second_report_of_a_freed_pause_reaches_the_queue(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was resumed meanwhile, and its devices were full."""
    run = make_run(devices=(GPU,))
    noted: list[str] = []
    monkeypatch.setattr(run.admission, "stays_paused", lambda: noted.append("paused"))
    run.script(5, says(Paused(5, freed_devices=True), Paused(5, freed_devices=True)))
    run.train()
    assert noted == ["paused", "paused"]
