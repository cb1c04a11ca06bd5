"""Records the facts of an attempt in a thread of the supervisor."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.facts import git_state, surroundings
from engine.facts.run_facts import AttemptFacts, write_attempt
from engine.scripts.secrets import secret_values
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

SNAPSHOT_SECONDS = 30.0
"""Time for the driver to tell of the devices."""

LAST_SECONDS = 2.0
"""Time to record what is not yet recorded when the run is over."""

GIT_SECONDS = 0.3
"""After that, for git to be ended."""

MOST_THREADS = 3


class Code(NamedTuple):
    """What is trained, and with what."""

    folder: Path | None
    """Where the code of the user lies; None: it is a part of Traindeck."""

    interpreter: str
    """Path of the Python that trains; empty: this one."""

    devices: tuple[str, ...]

    secrets: tuple[str, ...] = ()
    """Names of variables whose values no text may hold."""


class FactsRecorder:
    """Writes what an attempt was started with. Nothing waits for it, and it raises nothing."""

    def __init__(self, run_folder: Path, code: Code) -> None:
        self._run_folder = run_folder
        self._code = code
        self._has_snapshot = threading.Event()
        self._snapshot: Snapshot | None = None
        self._ends = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, attempt: int) -> None:
        """Record attempt number `attempt`."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= MOST_THREADS:
            return  # it restarts in no time, with the same code
        thread = threading.Thread(target=self._record, args=(attempt,), name="facts", daemon=True)
        self._threads.append(thread)
        thread.start()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Learn the devices of this machine."""
        if self._snapshot is None and any(device.kind == "gpu" for device in snapshot.devices):
            self._snapshot = snapshot
            self._has_snapshot.set()

    def end(self) -> None:
        """Wait for a moment for what is recorded still; called when the run is over."""
        self._has_snapshot.set()
        deadline = time.monotonic() + LAST_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._ends.set()
        for thread in self._threads:
            thread.join(GIT_SECONDS)

    def _record(self, attempt: int) -> None:
        begin = time.monotonic()
        try:
            self._write(attempt)
        except Exception:  # the run goes on; the overview says that there are no facts
            _log.exception("the facts of attempt %d could not be recorded", attempt)
        _log.info("facts of attempt %d: %.2f s", attempt, time.monotonic() - begin)

    def _write(self, attempt: int) -> None:
        code = self._code
        facts = AttemptFacts(attempt=attempt, recorded=time.time(), folder=str(code.folder or ""))
        parts = {
            "Python and its packages": lambda: surroundings.python_facts(code.interpreter),
            "the machine": surroundings.machine_facts,
        }
        for what, read in parts.items():
            try:
                facts = msgspec.structs.replace(facts, **read())
            except Exception as error:  # other facts are worth having; the overview tells of it
                text = f"{what[:1].upper()}{what[1:]} could not be read: {error}."
                facts = msgspec.structs.replace(facts, problems=(*facts.problems, text))
        facts = msgspec.structs.replace(
            facts, devices=surroundings.device_facts(code.devices, self._snapshot)
        )
        diff = ""
        write_attempt(self._run_folder, facts, diff)  # the run may end before git has answered
        if code.folder is not None:
            secrets = secret_values(os.environ, code.secrets)
            if found := git_state.git_state(code.folder, secrets, stop=self._ends):
                facts, diff = msgspec.structs.replace(facts, git=found.state), found.diff
                write_attempt(self._run_folder, facts, diff)
        if self._snapshot is None and not all(each.startswith("cpu") for each in code.devices):
            self._has_snapshot.wait(SNAPSHOT_SECONDS)
            if self._snapshot is not None:
                named_devices = surroundings.device_facts(code.devices, self._snapshot)
                facts = msgspec.structs.replace(facts, devices=named_devices)
                write_attempt(self._run_folder, facts)
