"""`python -m engine.processes.guardian` ends the workers of a run if their supervisor is gone.

The kernel does that, also to a worker whose native code never lets another thread run. The guardian
reads lines from its supervisor: `seconds S`, `checkpoints FOLDER`, `group FOLDER` if the workers
have a control group, `worker PID CREATED`, `scratch FOLDER`, and `end` when all workers have ended.
If the lines end without that, the workers have S seconds to save and leave, and as many again
whenever a save in that folder has got on.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

from engine.files import scratch_folder
from engine.files.save_progress import TimeToSave, save_progress
from engine.processes import process_tree
from engine.processes.control_group import ControlGroup
from engine.processes.process_tree import Identity

MARGIN_SECONDS = 2.0
"""Time after that of the workers, which end themselves if they can."""

LEFTOVER_SECONDS = 2.0
"""Time that processes which a worker has left have to end after SIGTERM."""

_SOCKETS = "traindeck-"
"""How the names of folders for sockets begin."""

LOOK_SECONDS = 1.0
"""Time between two looks at what the workers have started."""


class Guardian:
    """What the supervisor has told, and what follows from its end."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._checkpoints: Path | None = None
        self._workers: list[Identity] = []
        self._group: ControlGroup | None = None
        self._scratch: set[Path] = set()
        self._has_ended = False
        self._supervisor = os.getppid()

    def read(self, descriptor: int) -> bool:
        """Read lines until they end. Return whether the supervisor has said that all is over."""
        text = b""
        while not self._has_ended and (read := os.read(descriptor, 4096)):
            *lines, text = (text + read).split(b"\n")
            for line in lines:
                self._note(line.decode().split())
        return self._has_ended

    def _note(self, words: list[str]) -> None:
        match words:
            case ["seconds", seconds]:
                self._seconds = float(seconds)
            case ["checkpoints", *folder]:
                self._checkpoints = Path(" ".join(folder))
            case ["worker", pid, created]:
                self._workers.append((int(pid), float(created)))
            case ["group", *folder]:
                self._group = ControlGroup(Path(" ".join(folder)))
            case ["scratch", *folder]:
                self._scratch.add(Path(" ".join(folder)))
            case ["end"]:
                self._has_ended = True

    def end_workers(self) -> None:
        """Wait until the workers have left, or their time is over; end them and their children."""
        socket = self._socket_folder()  # now: the run may go on, or be deleted, before the end
        limit = TimeToSave(self._seconds + MARGIN_SECONDS, self._progress)
        seen: dict[Identity, None] = {}
        while alive := [each for each in self._workers if process_tree.is_alive(each)]:
            seen.update(dict.fromkeys(process_tree.descendants([pid for pid, _ in alive])))
            left = limit.left()
            if left <= 0:
                process_tree.kill(alive)
                break
            _wait_for_one(alive, min(left, LOOK_SECONDS))
        if self._group:
            self._group.end(LEFTOVER_SECONDS)
            self._group.remove()
        process_tree.end(seen, LEFTOVER_SECONDS)
        for folder in self._scratch:
            scratch_folder.remove(folder)
        if socket is not None:
            shutil.rmtree(socket, ignore_errors=True)

    def _socket_folder(self) -> Path | None:
        """Return the folder in which the supervisor listened; None: that is not known."""
        if self._checkpoints is None:
            return None
        pid, folder = where_it_listened(self._checkpoints.parent)
        return folder if pid == self._supervisor else None

    def _progress(self) -> object:
        return save_progress(self._checkpoints) if self._checkpoints else None


def where_it_listened(run_folder: Path) -> tuple[int, Path | None]:
    """Return the pid of a supervisor that was killed, and the folder of its socket, as it has
    written them; 0 and None: it has not."""
    try:
        control = json.loads((run_folder / "control.json").read_bytes())
        pid, folder = int(control["pid"]), Path(control["address"]).parent
    except (OSError, ValueError, KeyError, TypeError):
        return 0, None
    return pid, folder if folder.name.startswith(_SOCKETS) else None


def _wait_for_one(processes: list[Identity], seconds: float) -> None:
    """Wait until one of `processes` ends, for at most `seconds`."""
    poll = select.poll()
    descriptors = []
    try:
        for pid, _ in processes:
            descriptors.append(os.pidfd_open(pid))
            poll.register(descriptors[-1], select.POLLIN)
        poll.poll(1000 * seconds)
    except OSError:
        time.sleep(0.01)  # it has just ended
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def main() -> int:
    """Guard the workers that standard input names; return the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a shutdown gives the workers time to save
    guardian = Guardian()
    if not guardian.read(sys.stdin.fileno()):
        guardian.end_workers()
    return 0


if __name__ == "__main__":
    sys.exit(main())
