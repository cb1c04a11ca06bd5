"""Starts the guardian of a run (`engine.processes.guardian`), again too if it is killed."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
from pathlib import Path

from engine.processes import children
from engine.processes.control_group import ControlGroup
from engine.processes.process import ON_LINUX, module_environment

_log = logging.getLogger(__name__)

START_SECONDS = 0.5
"""Time after the first worker was launched: its start needs the processor more."""

AGAIN_SECONDS = 1.0
"""Time after the end of a guardian until the next one is started."""

_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}


class GuardianProcess:
    """Tells a guardian which workers there are. Only on Linux; elsewhere it does nothing."""

    def __init__(
        self, orphan_seconds: float, checkpoints: Path, control_group: ControlGroup | None = None
    ) -> None:
        """`checkpoints` is the folder in which the workers save; `control_group` is theirs."""
        self._changing = threading.Lock()
        self._lines = [f"seconds {orphan_seconds}\n", f"checkpoints {checkpoints}\n"]
        if control_group:
            self._lines.append(f"group {control_group.folder}\n")
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """The pid of the guardian; 0 if there is none now."""
        process = self._process
        return process.pid if process else 0

    def watch(self, pid: int, created: float) -> None:
        """Let the guardian end this worker if this process ends without `end`."""
        with self._changing:
            self._lines.append(f"worker {pid} {created!r}\n")
            self._tell(self._lines[-1])
        if self._thread is None and ON_LINUX:
            thread = threading.Thread(target=self._keep_one, daemon=True, name="guardian")
            with contextlib.suppress(RuntimeError):  # a limit for threads: the next worker tries
                thread.start()
                self._thread = thread

    def remove_at_end(self, scratch: Path) -> None:
        """Let the guardian remove this scratch folder once it has ended the workers."""
        line = f"scratch {scratch}\n"
        with self._changing:
            if line not in self._lines:
                self._lines.append(line)
                self._tell(line)

    def end(self) -> None:
        """End the guardian: all workers have ended."""
        self._ending.set()
        with self._changing:
            self._tell("end\n")
            if self._process and self._process.stdin:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()

    def _keep_one(self) -> None:
        self._ending.wait(START_SECONDS)
        while not self._ending.is_set():
            try:
                process = self._start()
            except OSError as error:  # such as a limit for processes
                _log.info("no guardian could be started: %s", error)
            else:
                code = process.wait()
                _log.info("the guardian ended with code %d", code)
            self._ending.wait(AGAIN_SECONDS)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a guardian, and tell it everything that is known. Raises OSError."""
        with self._changing:
            self._process = children.start(
                [sys.executable, "-P", "-S", "-s", "-m", "engine.processes.guardian"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=module_environment(_ENVIRONMENT),
                start_new_session=True,
            )
            self._tell("".join(self._lines))
            if self._ending.is_set():
                self._tell("end\n")
            return self._process

    def _tell(self, text: str) -> None:
        if self._process and self._process.stdin and not self._process.stdin.closed:
            with contextlib.suppress(OSError):  # it was killed: the next one is told everything
                self._process.stdin.write(text.encode())
                self._process.stdin.flush()
