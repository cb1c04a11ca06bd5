"""Templates that die, halt or cannot fork: runs start all the same, and nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.commands import Stop
from engine.messages.events import Notice, Restarting
from engine.runs.run_state import RunState
from engine.templates import client as templates
from engine.templates.kinds import KINDS
from engine.templates.protocol import Files, TemplateState, pid_of
from main import main
from tests.support.full_disk import fill, small_disk
from tests.support.kernel import KERNEL_TELLS
from tests.support.runs import (
    POLL_SECONDS,
    RECIPES,
    delete_folder,
    events,
    failure_of,
    is_training,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_until_gone,
)
from tests.support.sentences import sentence

LONGEST = 240.0
"""Longest wait in seconds for a template; only a test that fails waits so long."""

AT_ONCE = 0.75 * templates.ANSWER_SECONDS
"""Seconds in which a run ends that waits for a template that does nothing; later, it would end
because the template is given up."""

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(sys.platform != "linux", reason="templates exist on Linux only"),
]


def wait_until(condition: Callable[[], object], seconds: float = LONGEST) -> float:
    """Wait until `condition` holds, and return for how long; fail after `seconds`."""
    begun, pause = time.monotonic(), threading.Event()
    while not condition():
        assert time.monotonic() < begun + seconds, "it takes too long"
        pause.wait(POLL_SECONDS / 10)
    return time.monotonic() - begun


def in_folder(folder: Path) -> list[psutil.Process]:
    """The template processes of a folder, without their workers."""
    found = []
    for process in psutil.process_iter():
        try:
            is_template = " ".join(process.cmdline()).startswith("traindeck template")
            if is_template and process.cwd() == str(folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def ready_template() -> TemplateState:
    """The state of the template for PyTorch, which is started, once it can fork."""
    templates.start(KINDS["torch"])
    wait_until(templates.states)
    [state] = templates.states()
    return state


def kill_listening() -> int:
    """Kill the PyTorch template that listens, once there is one.

    Its file names it at once; it answers questions late while it imports.
    """
    wait_until(lambda: pid_of(Files("torch")))
    pid = pid_of(Files("torch"))
    os.kill(pid, signal.SIGKILL)
    return pid


def parent(pid: int) -> int:
    return psutil.Process(pid).ppid()


def notices(info: RunInfo) -> list[str]:
    return [event.text for event in events(info) if isinstance(event, Notice)]


@pytest.mark.nightly
def test_a_template_is_killed_while_it_imports_forks_and_has_workers(own_templates: Path) -> None:
    wanted = spec(
        "slow_phases", "torch/ddp", 2, epochs=1_000_000, max_restarts=1, checkpoint_steps=10
    )
    run_id = client.start(wanted)
    killed = kill_listening()
    info = wait_for(run_id, is_training)
    [state] = templates.states()
    assert state.pid != killed
    assert {parent(pid) for pid in info.status.worker_pids} == {state.pid}
    assert notices(info) == [], "a new template, and no cold start"

    many = client.start(spec("probe_torch", "torch/ddp", 6, epochs=1_000_000))
    wait_until(lambda: len(psutil.Process(state.pid).children()) > 2)
    kill_listening()
    info = wait_for(many, is_training)
    assert len(info.status.worker_pids) == 6
    client.send(many, Stop(now=True))
    wait_until_gone(wait_for_end(many))

    finite = client.start(spec("slow_phases", "torch/single", epochs=60))
    wait_for(finite, is_training)
    kill_listening()
    info = wait_for_end(finite)
    assert info.state is RunState.FINISHED, "its exit code is known without the template"
    wait_until_gone(info)

    info = wait_for(run_id, is_training)
    os.kill(info.status.worker_pids[1], signal.SIGKILL)
    info = wait_for(run_id, lambda info: info.status.attempt == 2 and is_training(info))
    [restarting] = [event for event in events(info) if isinstance(event, Restarting)]
    assert restarting.failure.rank == 1
    cause = "was ended by SIGKILL" if KERNEL_TELLS else "the system does not tell why"
    assert cause in restarting.failure.message
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert "with a checkpoint saved" in info.reason
    wait_until_gone(info)


@pytest.mark.nightly
def test_a_run_that_waits_for_a_template_ends_at_once(own_templates: Path) -> None:
    """The template is halted: it neither answers nor ends."""
    templates.start(KINDS["torch"])
    wait_until(templates.states)
    [state] = templates.states()
    os.kill(state.pid, signal.SIGSTOP)
    wanted = spec("probe_torch", "torch/ddp", 2, epochs=1_000_000)
    stopped, terminated, killed, _deleted = runs = [client.start(wanted) for _ in range(4)]
    begun = time.monotonic()
    client.send(stopped, Stop())
    os.kill(client.get_run(terminated).status.supervisor_pid, signal.SIGTERM)
    os.kill(client.get_run(killed).status.supervisor_pid, signal.SIGKILL)
    infos = [client.get_run(run_id) for run_id in runs]
    delete_folder(infos[-1].folder)
    for info in infos:
        wait_until_gone(info, AT_ONCE)
    print(f"four ends of a run that waits for its template: {time.monotonic() - begun:.2f} s")
    for run_id in (stopped, terminated):
        info = client.get_run(run_id)
        assert (info.state, info.reason) == (
            RunState.STOPPED,
            sentence("stopped-before-training-began"),
        )
    assert client.get_run(killed).state is RunState.INTERRUPTED
    os.kill(state.pid, signal.SIGCONT)
    state = ready_template()
    wait_until(lambda: psutil.Process(state.pid).children() == [])
    wait_until(lambda: [state.workers for state in templates.states()] == [0])


@pytest.mark.nightly
def test_many_runs_start_at_once_and_share_one_new_template(own_templates: Path) -> None:
    wanted = spec("probe_torch", "torch/ddp", 2, epochs=1_000_000)
    begun = time.monotonic()
    with ThreadPoolExecutor(6) as at_once:
        runs = list(at_once.map(lambda _: client.start(wanted), range(6)))
    infos = [wait_for(run_id, is_training) for run_id in runs]
    print(f"6 runs of 2 ranks train {time.monotonic() - begun:.2f} s after the first was asked for")
    [template] = in_folder(own_templates)
    for info in infos:
        assert {parent(pid) for pid in info.status.worker_pids} == {template.pid}
        assert notices(info) == []
    for run_id in runs:
        client.send(run_id, Stop(now=True))
    for run_id in runs:
        wait_until_gone(wait_for_end(run_id))


def trained_cold(info: RunInfo, reason: str) -> None:
    """Check that the run finished with cold workers, which one event explains by `reason`."""
    assert info.state is RunState.FINISHED, info.reason
    [text] = notices(info)
    assert text.startswith(sentence("workers-start-cold-which-takes-seconds"))
    assert reason in text
    wait_until_gone(info)


STARTS_A_THREAD = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True, name="lasts").start()
"""
BREAKS_TORCH = """
import sys
if "engine.templates" in sys.orig_argv:
    sys.modules["torch"] = None
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (STARTS_A_THREAD, sentence("fork-would-lose-threads-that-imports")),
        (BREAKS_TORCH, sentence("imports-failed-import-of-torch-halted")),
    ],
    ids=["starts a thread", "is broken"],
)
def test_an_environment_in_which_the_template_cannot_import(
    code: str,
    reason: str,
    own_templates: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    trained_cold(train(spec("probe_torch", "torch/single")), reason)


def test_a_full_disk_where_templates_listen(own_templates: Path) -> None:
    with small_disk(own_templates, "1m"):
        fill(own_templates / "filler")
        trained_cold(train(spec("probe_torch", "torch/single")), "No space left on device")
        assert in_folder(own_templates) == []
        assert list(own_templates.glob("*.sock")) == []


@pytest.fixture
def pids_group() -> Iterator[Path]:
    """A control group whose number of processes can be limited."""
    mounted = [Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")]
    group = next(path for path in mounted if path.is_dir()) / f"traindeck-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"a control group can be made by root only: {error}")
    if not (group / "pids.max").exists():
        group.rmdir()
        pytest.skip("control groups of this system do not limit processes")
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()


@pytest.mark.nightly
def test_a_fork_that_the_system_refuses(own_templates: Path, pids_group: Path) -> None:
    template = ready_template()
    (pids_group / "cgroup.procs").write_text(str(template.pid))
    (pids_group / "pids.max").write_text("1")
    trained_cold(train(spec("probe_torch", "torch/single")), "the system refused the fork")


@pytest.mark.nightly
def test_packages_that_change_while_a_run_trains(
    own_templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(packages))
    old = ready_template()
    wanted = spec("slow_phases", "torch/single", epochs=1_000_000)
    first, second = client.start(wanted), client.start(wanted)
    for run_id in (first, second):
        info = wait_for(run_id, is_training)
        assert parent(info.status.worker_pids[0]) == old.pid
    (packages / "torch-99.dist-info").mkdir()
    third = client.start(wanted)
    info = wait_for(third, is_training)
    assert notices(info) == []
    [new] = templates.states()
    assert parent(info.status.worker_pids[0]) == new.pid != old.pid
    client.send(third, Stop(now=True))
    wait_until_gone(wait_for_end(third))

    client.send(second, Stop())
    assert "with a checkpoint saved" in wait_for_end(second).reason
    os.kill(client.get_run(first).status.worker_pids[0], signal.SIGKILL)
    assert failure_of(wait_for_end(first)).signal == "SIGKILL", "the old template reports it"
    wait_until(lambda: [process.pid for process in in_folder(own_templates)] == [new.pid])


EAGER = """
import os, sys, threading
os.environ["CUDA_VISIBLE_DEVICES"] = "7"
import xml.dom.minidom, unittest, sqlite3
import torch

thread = threading.Thread(target=threading.Event().wait, daemon=True)
thread.start()
with __import__("concurrent.futures").futures.ThreadPoolExecutor(2) as pool:
    squares = list(pool.map(lambda number: number ** 2, range(3)))

def model():
    return torch.nn.Linear(4, 1)

def datasets():
    print("squares", squares, "alive", thread.is_alive(), "argv", sys.argv)
    print("device", os.environ["CUDA_VISIBLE_DEVICES"], torch.cuda.is_initialized())
    return ((torch.ones(64, 4), torch.ones(64, 1)),) * 2

def loss(outputs, targets):
    return ((outputs - targets) ** 2).mean()
"""


@pytest.mark.nightly
def test_what_a_recipe_does_at_its_import_works_as_in_a_cold_worker(tmp_path: Path) -> None:
    """It starts threads, imports more, and chooses devices itself."""
    recipe = tmp_path / "eager.py"
    recipe.write_text(EAGER)
    output = []
    for cold in (False, True):
        info = train(spec(str(recipe), "torch/single", cold_start=cold))
        assert info.state is RunState.FINISHED, info.reason
        assert notices(info) == []
        output.append((info.folder / "logs" / "rank0.log").read_text())
    assert output[0] == output[1]
    assert f"squares [0, 1, 4] alive True argv ['{recipe}']\ndevice 7 False\n" in output[0]


@pytest.mark.nightly
def test_a_run_may_ask_for_cold_workers_and_is_resumed_with_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {"recipe": RECIPES / "slow_phases.py", "strategy": "ddp", "devices": "cpu:0,cpu:1"}
    asked = [f"--{name}={value}" for name, value in (options | {"epochs": 1_000_000}).items()]
    assert main(["train", *asked, "--cold-start", "--detach"]) == 0
    run_id = capsys.readouterr().out.strip()
    for attempt in (1, 2):
        info = wait_for(run_id, lambda i: i.status.attempt == attempt and is_training(i))  # noqa: B023
        assert {parent(pid) for pid in info.status.worker_pids} == {info.status.supervisor_pid}
        assert notices(info) == [], "it is what the user asked for"
        client.send(run_id, Stop())
        assert wait_for_end(run_id).state is RunState.STOPPED
        if attempt == 1:
            assert main(["resume", run_id, "--detach"]) == 0
    capsys.readouterr()
    assert main(["show", run_id]) == 0
    assert re.search(r"^cold start +True *$", capsys.readouterr().out, re.MULTILINE)
    wait_until_gone(client.get_run(run_id))
