"""How a pool starts its workers: what it reports where a template cannot fork them."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.processes import process
from engine.spec import catalog
from engine.supervisor import worker_pool
from engine.supervisor.inbox import (
    Launch,
    LaunchedCold,
    LaunchEnded,
    LaunchFailed,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.worker_pool import RunPlan, WorkerPool
from engine.templates import client, differences
from engine.templates.client import NoTemplate
from engine.templates.kinds import TemplateKind
from engine.templates.protocol import Fork
from tests.support.runs import spec
from tests.support.sentences import sentence

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""


class Processes:
    """Stands in for `start_module`, and counts what is ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        self.ended: list[tuple[int, bool]] = []
        self.problem: Exception | None = None
        monkeypatch.setattr(worker_pool, "start_module", self.start)
        monkeypatch.setattr(worker_pool, "end_group", self.end)

    def start(self, module: str, *_: str, environment: dict[str, str], **others: Any) -> Process:
        if self.problem:
            raise self.problem
        self.others = others | {"environment": environment}
        self.started.append(f"{module} {environment['RANK']}")
        return Process(1000 + len(self.started))

    def end(self, leader: process.Process, *, kill: bool) -> None:
        self.ended.append((leader.pid, kill))


class Process:
    """A process that has ended with the code 0."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        return 0


@pytest.fixture
def processes_double(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


Reports = queue.SimpleQueue[Launch | WorkerExited]


def launch(reports: Reports, cold_start: bool = False, interpreter: str = "") -> WorkerPool:
    """A pool of three workers that starts."""
    wanted = spec("probe_torch", "torch/ddp", 3, cold_start=cold_start, interpreter=interpreter)
    recipe = catalog.recipe(wanted.recipe)
    strategy = catalog.strategy(wanted.strategy, recipe)
    plan = RunPlan(Path("run"), wanted, recipe, strategy, strategy.pool(wanted.slots))
    pool = WorkerPool(plan, reports.put)
    pool.start({})
    return pool


def received(reports: Reports) -> list[Launch]:
    """What was reported about the start, in order."""
    found: list[Launch] = []
    while LaunchEnded() not in found:
        report = reports.get(timeout=SECONDS)
        if not isinstance(report, WorkerExited):
            found.append(report)
    return found


LAUNCHED = [WorkerLaunched(0, 1001), WorkerLaunched(1, 1002), WorkerLaunched(2, 1003)]


@pytest.mark.parametrize("lacks", ["Linux", "pidfd"])
def test_without_templates_the_workers_start_cold_and_one_report_says_so(
    lacks: str, processes_double: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacks == "Linux":
        monkeypatch.setattr(client, "ON_LINUX", False)
    else:
        monkeypatch.delattr("os.pidfd_open", raising=False)
    reports: Reports = queue.SimpleQueue()
    launch(reports)
    cold = LaunchedCold("this system has no templates")
    assert received(reports) == [cold, *LAUNCHED, LaunchEnded()]
    assert processes_double.started == ["engine.worker 0", "engine.worker 1", "engine.worker 2"]


def test_a_process_that_cannot_read_its_own_limits_starts_cold_workers(
    processes_double: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on other systems than Linux, or with a /proc that shows less."""

    def fail() -> dict[str, str]:
        raise OSError("/proc/self/status cannot be read")

    monkeypatch.setattr(differences, "of_shell", fail)
    reports: Reports = queue.SimpleQueue()
    launch(reports)
    cold = LaunchedCold("this system has no templates")
    assert received(reports) == [cold, *LAUNCHED, LaunchEnded()]


def test_cold_workers_that_were_asked_for_need_no_report(processes_double: Processes) -> None:
    reports: Reports = queue.SimpleQueue()
    launch(reports, cold_start=True)
    assert received(reports) == [*LAUNCHED, LaunchEnded()]


def test_workers_of_another_environment_find_our_modules_and_nothing_else_of_ours(
    processes_double: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(process.PROJECT), "/of/the/user"]))
    reports: Reports = queue.SimpleQueue()
    launch(reports, interpreter="/their/env/bin/python")
    assert received(reports) == [*LAUNCHED, LaunchEnded()]  # its cold start needs no report
    others = processes_double.others
    assert others["interpreter"] == "/their/env/bin/python"
    environment = process.module_environment(others["environment"])
    assert environment["PYTHONPATH"] == f"{process.PROJECT}{os.pathsep}/of/the/user"
    assert environment["PATH"].startswith(f"/their/env/bin{os.pathsep}")


@pytest.mark.parametrize("problem", [OSError("no room"), RuntimeError("no room")])
def test_a_worker_that_cannot_be_started_is_reported(
    problem: Exception, processes_double: Processes
) -> None:
    processes_double.problem = problem
    reports: Reports = queue.SimpleQueue()
    launch(reports, cold_start=True)
    failed = LaunchFailed("A worker could not be started: no room.")
    assert received(reports) == [failed, LaunchEnded()]


def test_an_environment_that_is_gone_is_named(processes_double: Processes) -> None:
    processes_double.problem = FileNotFoundError("/their/env/bin/python")
    reports: Reports = queue.SimpleQueue()
    launch(reports, interpreter="/their/env/bin/python")
    why = "There is no Python /their/env/bin/python (any more): choose another environment."
    assert received(reports)[0] == LaunchFailed(sentence("worker-could-not-be-started", why=why))


def test_no_worker_is_started_after_the_end(
    processes_double: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool is ended while its second worker is forked: that one is killed at once."""
    ended = threading.Event()

    def fork(_: TemplateKind, requests: Sequence[Fork], *__: object) -> Iterator[Any]:
        yield Process(1)
        assert ended.wait(SECONDS)
        yield Process(2)
        yield NoTemplate("unreachable")

    monkeypatch.setattr(client, "fork_workers", fork)
    reports: Reports = queue.SimpleQueue()
    pool = launch(reports)
    assert reports.get(timeout=SECONDS) == WorkerLaunched(0, 1)
    pool.end(kill=False)
    ended.set()
    assert received(reports) == [WorkerLaunched(1, 2), LaunchEnded()]
    assert processes_double.ended == [(1, False), (2, True)]
    assert processes_double.started == []
