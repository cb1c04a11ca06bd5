"""A run of a script with calls, without the engine: its ranks, and what they tell."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.supervisor.script_attempt import free_ports
from tests.support.forked_script import PACKAGES
from tests.support.programs import Program
from tests.support.script_listener import IN_SCRIPT, Frame, ScriptListener

SECONDS = 240.0
"""Longest wait; only a test that fails waits so long."""


def forked(
    kind: str, *words: str, log: Path, variables: Mapping[str, str], packages: Path = IN_SCRIPT
) -> Program:
    """Run the script and the arguments of `words` in a process that a template has forked.

    `packages`: the folder that has the calls, and what runs when Python starts.
    """
    return Program(
        kind,
        "tests.support.forked_script",
        *words,
        log=log,
        variables={**variables, PACKAGES: str(packages)},
        folder=log.parent,
    )


class ScriptRun:
    """One or several ranks of a script, as Traindeck starts them."""

    def __init__(
        self,
        script: Path,
        run_folder: Path,
        *,
        ranks: int = 1,
        arguments: Sequence[str] = (),
        checkpoint: Path | None = None,
        every: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        python: str = sys.executable,
        kind: str = "",
    ) -> None:
        """`every`: the schedule of checkpoints, such as {"steps": 5}. `kind`: of the template that
        forks the ranks; empty: Python starts, and imports the framework itself."""
        # The path of a socket is short: not below the folder of a test.
        self._exchange = Path(tempfile.mkdtemp(prefix="td-"))
        self.run_folder = run_folder
        run_folder.mkdir(parents=True, exist_ok=True)
        self._listeners = [ScriptListener(self._exchange, rank, ranks) for rank in range(ranks)]
        self._logs = [run_folder / f"output-{rank}.txt" for rank in range(ranks)]
        shared = {
            "TRAINDECK_RUN_FOLDER": str(run_folder),
            "TRAINDECK_CHECKPOINT": str(checkpoint or ""),
            "OMP_NUM_THREADS": "1",
            **(variables or {}),
        }
        launcher = {
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(*free_ports(1)),
        }
        self._processes: list[subprocess.Popen[str] | Program] = []
        process: subprocess.Popen[str] | Program
        for rank, listener in enumerate(self._listeners):
            listener.greeting = {"kind": "save_every", **(every or {})}
            own = launcher | {"RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {}
            words = (str(script), *arguments)
            if kind:
                variables = listener.environment | shared | own
                del variables["PYTHONPATH"]
                process = forked(kind, *words, log=self._logs[rank], variables=variables)
            else:
                with self._logs[rank].open("wb") as log:
                    process = listener.start(
                        *words, python=python, variables=shared | own, output=log.fileno()
                    )
            self._processes.append(process)

    def frames(self, kind: str, rank: int = 0) -> list[Frame]:
        """Return the frames of a kind that a rank has sent so far."""
        return self._listeners[rank].of_kind(kind)

    def points(self, series: str, rank: int = 0) -> list[tuple[int, float]]:
        """Return steps and values of a series."""
        return self._listeners[rank].series.get(series, [])

    @property
    def notices(self) -> list[str]:
        """What a person was told by rank 0."""
        return self._listeners[0].notices

    @property
    def failure(self) -> str:
        """The message of the exception that has ended a rank; empty: none has."""
        found = [f for rank in range(len(self._listeners)) for f in self.frames("failed", rank)]
        return str(found[0]["message"]) if found else ""

    def act(self, what: str, number: int = 1, **details: Any) -> None:
        """Send a command to rank 0's script."""
        self._listeners[0].act(what, number, **details)

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Wait until `condition` is true, and return it. Fails if the script has ended."""
        deadline = time.monotonic() + SECONDS
        while not (found := condition()):
            assert time.monotonic() < deadline, self.output()
            assert self.is_running() or condition(), f"it has ended: {self.output()}"
            time.sleep(0.01)
        return found

    def is_running(self) -> bool:
        """Whether every rank runs."""
        return all(process.poll() is None for process in self._processes)

    def kill(self) -> None:
        """Kill all ranks that still run, as a power cut would."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
        self.wait()

    def wait(self) -> list[int]:
        """Wait for the end of all ranks; return their exit codes."""
        deadline = time.monotonic() + SECONDS
        try:
            codes = [p.wait(max(0.1, deadline - time.monotonic())) for p in self._processes]
        except subprocess.TimeoutExpired:
            for process in self._processes:
                process.kill()
            raise AssertionError(f"it did not end: {self.output()}") from None
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.__exit__(None, None, None)
        shutil.rmtree(self._exchange, ignore_errors=True)
        return codes

    def lines(self, rank: int = 0) -> list[str]:
        """Return the lines that a rank has printed so far."""
        return self._logs[rank].read_text().splitlines()

    def output(self) -> str:
        """Return what all ranks have printed, for the message of a test that fails."""
        return "\n".join(f"rank {rank}: {log.read_text()}" for rank, log in enumerate(self._logs))

    def saved(self, step: int) -> Path:
        """Return the folder of the checkpoint after `step`, which no process publishes here."""
        return self.run_folder / "checkpoints" / f"step-{step:08d}.tmp"
