"""Templates without a framework, and workers that run a line of Python."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.processes.process import module_environment
from engine.templates import client, differences
from engine.templates.forked_process import ForkedProcess
from engine.templates.kinds import SHARED_ENVIRONMENT
from engine.templates.protocol import Files, Fork, TemplateState
from tests.support.light_templates import LIGHT_KINDS

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""


def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Wait until `condition` holds, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)
    return value


class LightTemplates:
    """The templates of `tests.support.light_templates`, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.parent / "worker.log"
        """The output of the workers."""

        self.workers: list[ForkedProcess] = []

    def request(self, code: str = "", **changes: Any) -> Fork:
        """A request for a worker that runs `code`."""
        environment = module_environment(os.environ | SHARED_ENVIRONMENT)
        settings: dict[str, Any] = {
            "module": "tests.support.light_worker",
            "arguments": [code],
            "environment": environment | changes.pop("variables", {}),
            "folder": str(self.folder.parent),
            "log": str(self.log),
            "shell": differences.of_shell(),
        }
        return Fork(**(settings | changes))

    def fork(
        self, code: str = "", kind: str = "light", **changes: Any
    ) -> ForkedProcess | client.NoTemplate:
        """Fork a worker that runs `code`."""
        [process] = client.fork_workers(LIGHT_KINDS[kind], [self.request(code, **changes)])
        if isinstance(process, ForkedProcess):
            self.workers.append(process)
        return process

    def run(self, code: str, kind: str = "light", **changes: Any) -> int:
        """Fork a worker that runs `code`, and return its exit code."""
        process = self.fork(code, kind, **changes)
        assert isinstance(process, ForkedProcess), process
        return process.wait()

    def files(self, kind: str = "light") -> Files:
        return Files(kind)

    def state(self, kind: str = "light") -> TemplateState | None:
        return next((state for state in client.states() if state.kind == kind), None)

    def start(self, kind: str = "light") -> TemplateState:
        """Start a template and wait until its imports are done."""
        client.start(LIGHT_KINDS[kind])
        state: TemplateState = until(lambda: self.state(kind))
        return state

    def kill_workers(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)


@pytest.fixture
def templates(
    processes: None, own_templates: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LightTemplates]:
    monkeypatch.setattr(client, "KINDS", LIGHT_KINDS)
    light = LightTemplates(own_templates)
    yield light
    light.kill_workers()


def is_gone(pid: int) -> bool:
    """Whether process `pid` has ended."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
