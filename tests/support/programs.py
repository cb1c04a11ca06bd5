"""Programs of tests that need a framework, forked from the templates of all tests."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from engine.processes.process import PROJECT, Process, end_group, module_environment, start_module
from engine.templates import client, differences
from engine.templates.kinds import KINDS, SHARED_ENVIRONMENT
from engine.templates.protocol import Fork

SECONDS = 540.0
"""Longest wait; only a test that fails waits so long."""


class Program:
    """`python -m module arguments...` on CPUs, in a process that has imported a framework."""

    def __init__(
        self,
        kind: str,
        module: str,
        *arguments: str,
        log: Path,
        variables: dict[str, str],
        folder: Path = PROJECT,
    ) -> None:
        """Start it in `folder`; `log` gets its output. `variables` are added to the environment.

        `kind` names the template. Where there are no templates, it imports the framework itself.
        """
        environment = module_environment(
            os.environ
            | SHARED_ENVIRONMENT
            | KINDS[kind].environment
            | {"CUDA_VISIBLE_DEVICES": "", "KERAS_TORCH_DEVICE": "cpu"}
            | variables
        )
        shell = differences.of_shell()
        request = Fork(module, [*arguments], environment, str(folder), str(log), shell)
        [forked] = client.fork_workers(KINDS[kind], [request])
        self._process: Process = (
            start_module(module, *arguments, log=log, environment=environment)
            if isinstance(forked, client.NoTemplate)
            else forked
        )
        self._log = log
        self._codes: list[int] = []
        self._waits = threading.Thread(
            target=lambda: self._codes.append(self._process.wait()), daemon=True
        )
        self._waits.start()

    def poll(self) -> int | None:
        """Return its exit code, or -n for the signal n; None while it runs."""
        return self._codes[0] if self._codes else None

    def wait(self, timeout: float) -> int:
        """Wait for its end, and return its exit code. Raises subprocess.TimeoutExpired."""
        self._waits.join(timeout)
        if not self._codes:
            raise subprocess.TimeoutExpired(str(self._log), timeout)
        return self._codes[0]

    def output(self, code: int = 0) -> str:
        """Wait until it has ended, and return what it printed. Fails if its exit code is not
        `code`."""
        self._waits.join(SECONDS)
        printed = self._log.read_text(errors="replace")
        assert self._codes == [code], printed[-4000:]
        return printed

    def kill(self) -> None:
        """End it and the processes that it started, if they still run."""
        if self._waits.is_alive():
            end_group(self._process, kill=True)


def found_by(kind: str, module: str, file: Path, *arguments: str) -> Any:
    """Run `module`, which writes what it found to `file` as JSON, and return that."""
    program = Program(
        kind, module, str(file), *arguments, log=file.with_suffix(".log"), variables={}
    )
    try:
        program.output()
    finally:
        program.kill()
    return json.loads(file.read_text())
