"""A killed supervisor: its workers save a checkpoint and leave; no step and no point is lost.

What they could not tell the supervisor lies beside the checkpoint, and the resumed run has it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.commands import Pause, Stop
from engine.messages.events import CheckpointSaved, EpochEnded, Rewound
from engine.processes.process import ON_LINUX
from engine.runs import unrecorded_events
from engine.runs.run_state import RunState
from tests.support.runs import (
    POLL_SECONDS,
    TIMEOUT_SECONDS,
    curve,
    events,
    helper_of,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_until_gone,
)
from tests.support.sentences import sentence

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(os.name != "posix", reason="it kills with signals"),
]


def kill_supervisor(info: RunInfo) -> None:
    os.kill(info.status.supervisor_pid, signal.SIGKILL)


def halt_supervisor(info: RunInfo) -> None:
    os.kill(info.status.supervisor_pid, signal.SIGSTOP)


def orphans_ended(info: RunInfo) -> RunInfo:
    """The run once all its processes are gone."""
    wait_until_gone(info)
    until(lambda: not client.get_run(info.id).has_orphans, "it has orphans")
    after = client.get_run(info.id)
    assert after.state is RunState.INTERRUPTED
    return after


def until(condition: object, what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    pause = threading.Event()
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        pause.wait(POLL_SECONDS)


def trained_on(run_id: str, steps: int) -> RunInfo:
    """The resumed run after `steps` more steps, stopped."""
    saved = client.run_checkpoints(run_id)[-1].manifest.position.step
    attempt = client.get_run(run_id).status.attempt
    wait_for(run_id, lambda i: i.status.attempt >= attempt and i.status.step >= saved + steps)
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    wait_until_gone(info)
    return info


def assert_whole(info: RunInfo) -> None:
    """Every step has its point once, and every epoch its validation and its event."""
    steps, _ = curve(info, "train/loss")
    assert steps == list(range(1, info.status.step + 1))
    ended = [event for event in events(info) if isinstance(event, EpochEnded)]
    assert [event.epoch for event in ended] == list(range(1, len(ended) + 1))
    assert curve(info, "validation/loss")[0] == [event.step for event in ended]


@pytest.mark.parametrize(
    ("strategy", "devices"),
    [pytest.param("torch/single", 1, marks=pytest.mark.nightly), ("torch/ddp", 2)],
    ids=["one rank", "two ranks"],
)
def test_a_killed_supervisor_costs_no_step_and_no_point(strategy: str, devices: int) -> None:
    """It is halted first, so that it knows little of what its workers have done at its end."""
    run_id = client.start(spec("endless_counter", strategy, devices, epochs=1_000_000))
    info = wait_for(run_id, is_training)
    counted = info.folder / "counted"
    halt_supervisor(info)
    known = client.get_run(run_id).status.step
    until(lambda: int(counted.read_text() or 0) > known + 150, "the workers train on")
    kill_supervisor(info)
    after = orphans_ended(info)
    done = int(counted.read_text())
    saved = client.run_checkpoints(run_id)[-1].manifest.position.step
    assert saved == after.status.checkpoint_step == done > known + 150
    assert len(curve(after, "train/loss")[0]) <= known + 100, "the store did not get them"

    client.resume(run_id)
    info = trained_on(run_id, 10)
    assert_whole(info)
    happened = events(info)
    [rewound] = [event for event in happened if isinstance(event, Rewound)]
    assert rewound.step == saved
    first = next(event for event in happened if isinstance(event, CheckpointSaved))
    assert (first.step, first.seconds > 0) == (saved, True)
    ends = [event.step for event in happened if isinstance(event, EpochEnded)]
    steps = info.status.step  # the last epoch may be stopped before its validation
    assert ends in (list(range(100, steps + 1, 100)), list(range(100, steps, 100)))


@pytest.mark.nightly
def test_a_paused_run_saves_as_well() -> None:
    run_id = client.start(spec("endless_counter", "torch/ddp", 2, epochs=1_000_000))
    wait_for(run_id, is_training)
    client.send(run_id, Pause())
    info = wait_for(run_id, lambda info: info.state is RunState.PAUSED)
    kill_supervisor(info)
    after = orphans_ended(info)
    assert after.status.checkpoint_step == info.status.step
    client.resume(run_id)
    assert_whole(trained_on(run_id, 10))


@pytest.mark.nightly
def test_a_supervisor_is_killed_in_a_validation_and_in_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_DWELL", "validation")
    run_id = client.start(
        spec("slow_phases", "torch/single", epochs=1_000_000, batch_size=64, checkpoint_steps=5)
    )
    info = wait_for(run_id, lambda info: (info.folder / "in-validation").exists())
    kill_supervisor(info)
    after = orphans_ended(info)
    assert after.status.checkpoint_step == 10, "an epoch has ten steps"

    monkeypatch.setenv("TEST_DWELL", "checkpoint")
    client.resume(run_id)
    info = wait_for(run_id, lambda info: (info.folder / "in-checkpoint").exists())
    kill_supervisor(info)
    after = orphans_ended(info)
    assert after.status.checkpoint_step > 10
    assert not list((info.folder / "checkpoints").glob("*.tmp"))
    monkeypatch.setenv("TEST_DWELL", "")
    client.resume(run_id)
    assert_whole(trained_on(run_id, 10))


SLOW = """
import time
from pathlib import Path
import torch
def model(): return torch.nn.Linear(4, 1)
def datasets(): return ((torch.ones(64, 4), torch.ones(64, 1)),) * 2
def loss(outputs, targets):
    if torch.is_grad_enabled():
        time.sleep(0.05)
        while Path(__file__).with_name("wait").exists():
            Path(__file__).with_name(f"waits-{torch.initial_seed()}").touch()
            time.sleep(0.01)
    return ((outputs - targets) ** 2).mean()
"""


def test_a_resume_and_the_queue_wait_for_the_workers_that_still_save(tmp_path: Path) -> None:
    """They are in a step that lasts until a file is removed."""
    recipe = tmp_path / "slow.py"
    recipe.write_text(SLOW)
    wanted = spec(str(recipe), "torch/single", epochs=1_000_000, queue="always")
    run_id = client.start(wanted)
    info = wait_for(run_id, is_training)
    hold = tmp_path / "wait"
    hold.touch()
    second = client.start(wanted)
    wait_for(second, lambda info: info.state is RunState.QUEUED)
    kill_supervisor(info)
    until(lambda: client.get_run(run_id).has_orphans, "it has orphans")
    orphaned = client.get_run(run_id)
    assert orphaned.state is RunState.INTERRUPTED
    assert orphaned.reason.endswith(sentence("workers-save-checkpoint-and-leave-within"))

    resuming = threading.Thread(target=client.resume, args=(run_id,))
    resuming.start()
    resuming.join(0.6)  # the queue is read twice meanwhile
    assert resuming.is_alive()
    assert client.get_run(run_id).status.attempt == 1
    assert client.get_run(second).state is RunState.QUEUED, "its device is still used"
    hold.unlink()
    resuming.join(TIMEOUT_SECONDS)
    wait_for(second, lambda info: info.status.step > 0)
    again = client.get_run(run_id)
    assert (again.state.is_over, again.status.attempt, again.status.workers_ready) == (False, 2, 0)
    client.send(second, Stop(now=True))
    wait_for_end(second)
    saved = client.run_checkpoints(run_id)[-1].manifest.position.step
    assert saved >= info.status.step
    assert_whole(trained_on(run_id, 2))


def test_workers_that_cannot_save_leave_when_their_time_is_over(tmp_path: Path) -> None:
    recipe = tmp_path / "slow.py"
    recipe.write_text(SLOW)
    run_id = client.start(spec(str(recipe), "torch/ddp", 2, epochs=1_000_000, orphan_seconds=0.5))
    info = wait_for(run_id, is_training)
    (tmp_path / "wait").touch()
    until(lambda: any(tmp_path.glob("waits-*")), "a rank is in a step that lasts, the other waits")
    kill_supervisor(info)
    orphans_ended(info)
    assert client.run_checkpoints(run_id) == []


@pytest.mark.nightly
def test_a_rank_that_is_killed_with_the_supervisor_ends_the_others_at_once() -> None:
    run_id = client.start(
        spec("slow_phases", "torch/ddp", 2, epochs=1_000_000, orphan_seconds=3600)
    )
    info = wait_for(run_id, is_training)
    for pid in (info.status.worker_pids[1], info.status.supervisor_pid):
        os.kill(pid, signal.SIGKILL)
    orphans_ended(info)


def test_orphans_are_ended_by_a_stop(tmp_path: Path) -> None:
    recipe = tmp_path / "slow.py"
    recipe.write_text(SLOW)
    run_id = client.start(spec(str(recipe), "torch/single", epochs=1_000_000, orphan_seconds=3600))
    info = wait_for(run_id, is_training)
    (tmp_path / "wait").touch()
    kill_supervisor(info)
    until(lambda: client.get_run(run_id).has_orphans, "it has orphans")
    ended = client.end_orphans(run_id, now=True)
    assert not ended.has_orphans
    wait_until_gone(info)


GIL = """
import ctypes, subprocess, time
from pathlib import Path
import torch
HERE = Path(__file__).parent
def model(): return torch.nn.Linear(4, 1)
def datasets(): return ((torch.ones(64, 4), torch.ones(64, 1)),) * 2
def loss(outputs, targets):
    time.sleep(0.02)
    if (HERE / "wait").exists():
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        (HERE / "new").write_text(str(child.pid))
        (HERE / "new").rename(HERE / "holds")
        ctypes.PyDLL(None).sleep(1000)
    return ((outputs - targets) ** 2).mean()
"""


@pytest.mark.skipif(not ON_LINUX, reason="the guardian needs Linux")
@pytest.mark.parametrize(
    "also",
    [
        "",
        *(
            pytest.param(each, marks=pytest.mark.nightly)
            for each in ("cold", "guardian", "template")
        ),
    ],
)
def test_a_worker_in_native_code_that_holds_the_gil_is_killed_with_its_children(
    tmp_path: Path, request: pytest.FixtureRequest, also: str
) -> None:
    """Also if it is no child of a template, and if guardian or template are killed before."""
    own_templates = request.getfixturevalue("own_templates") if also == "template" else tmp_path
    recipe = tmp_path / "holds.py"
    recipe.write_text(GIL)
    run_id = client.start(
        spec(
            str(recipe),
            "torch/single",
            epochs=1_000_000,
            orphan_seconds=0.2,
            cold_start=also == "cold",
        )
    )
    info = wait_for(run_id, is_training)
    until(lambda: helper_of(info, "engine.processes.guardian"), "there is a guardian")
    if also == "guardian":
        guardian = helper_of(info, "engine.processes.guardian")
        assert guardian is not None
        guardian.kill()
        until(
            lambda: helper_of(info, "engine.processes.guardian") not in (None, guardian),
            "another one is started",
        )
    (tmp_path / "wait").touch()
    until(lambda: (tmp_path / "holds").exists(), "it holds the lock of Python")
    child = psutil.Process(int((tmp_path / "holds").read_text()))
    if also == "template":
        os.kill(int((own_templates / "torch.lock").read_text()), signal.SIGKILL)
    kill_supervisor(info)
    orphans_ended(info)
    until(lambda: not child.is_running(), "what it has started ends with it")


def test_files_of_another_attempt_and_damaged_ones_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "step-00000003"
    folder.mkdir(parents=True)
    kept = [unrecorded_events.NumberedEvent(n, 50.0 + n, EpochEnded(n, n, {})) for n in (1, 2, 3)]
    unrecorded_events.write(folder, 2, 0, kept)
    (folder / "unrecorded-rank1.msgpack").write_bytes(b"\xc1 no message pack")
    assert list(unrecorded_events.read(tmp_path, 1, {})) == []
    assert list(unrecorded_events.read(tmp_path, 2, {0: 2})) == [(0, kept[2])]
