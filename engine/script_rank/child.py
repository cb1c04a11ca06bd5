"""The user's command as the child of a rank's process: its start, its output, its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.processes import children, process_tree
from engine.processes.process import ON_POSIX, start_time
from engine.script_rank.output_figures import OutputFigures

PIPE_BYTES = 2**20
"""Size of the pipe of the output, where the system allows it: a print waits for no disk."""

READ_AT_ONCE = 65_536
TAIL_BYTES = 65_536
"""Bytes of the end of the output that are kept, to find a traceback in them."""

LAST_OUTPUT_SECONDS = 1.0
"""Time for the output to end after the command has: a process that it has left may hold it."""


class Child:
    """The process of the command, which leads a process group of its own."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        figures: OutputFigures | None,
        ended: Callable[[int], None],
    ) -> None:
        """Start the command. Raises OSError.

        A thread gives `figures` each piece of the output, after it was written to this process's
        own output; another one calls `ended` with the exit code, or -n for the signal n.
        """
        self._process = children.start(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment),
            bufsize=0,
            **({"process_group": 0} if ON_POSIX else {}),
        )
        self.pid = self._process.pid
        self.created = start_time(self.pid)
        self.code: int | None = None
        """How it has ended; None: it runs."""

        self.bytes_read = 0
        """Bytes of output so far."""

        self._tail = bytearray()
        self._figures = figures
        self._reader = threading.Thread(target=self._copy_output, daemon=True, name="output")
        self._reader.start()
        threading.Thread(target=self._wait, args=(ended,), daemon=True, name="child").start()

    @property
    def tail(self) -> str:
        """The end of its output."""
        return bytes(self._tail).decode(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to the command and to what it has started in its group, as Ctrl-C does."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number) if ON_POSIX else os.kill(self.pid, number)

    def catches(self, number: int) -> bool:
        """Whether the command has a handler for this signal; True where the system does not tell.

        Python has one for SIGINT, which raises KeyboardInterrupt.
        """
        try:
            text = Path(f"/proc/{self.pid}/status").read_text()
            line = next(line for line in text.splitlines() if line.startswith("SigCgt:"))
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        except (OSError, StopIteration, ValueError, IndexError):
            return True

    def kill(self) -> None:
        """Kill the command and all that it has started."""
        process_tree.kill([(self.pid, self.created)])
        if ON_POSIX:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def end_leftovers(self, seconds: float) -> None:
        """End what the command has started and left, also outside of its group."""
        if ON_POSIX:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGTERM)
        children.end_adopted(seconds)
        self._reader.join(LAST_OUTPUT_SECONDS)

    def _wait(self, ended: Callable[[int], None]) -> None:
        code = self._process.wait()
        self._reader.join(LAST_OUTPUT_SECONDS)
        self.code = code
        ended(code)

    def _copy_output(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        _enlarge(pipe.fileno())
        while piece := self._next_piece(pipe.fileno()):
            left = piece
            with contextlib.suppress(OSError):  # the script must not wait for its log
                while left:
                    left = left[os.write(1, left) :]
            self.bytes_read += len(piece)
            self._tail += piece
            del self._tail[:-TAIL_BYTES]
            if self._figures is not None:
                self._figures.add(piece)

    def _next_piece(self, pipe: int) -> bytes:
        """Wait for output; read figures of earlier pieces as long as there is none."""
        while self._figures is not None and not select.select([pipe], [], [], 0)[0]:
            if not self._figures.read_piece():
                break
        return os.read(pipe, READ_AT_ONCE)


def _enlarge(pipe: int) -> None:
    import fcntl  # not on Windows

    if command := getattr(fcntl, "F_SETPIPE_SZ", 0):
        with contextlib.suppress(OSError):  # the user has many pipes
            fcntl.fcntl(pipe, command, PIPE_BYTES)
