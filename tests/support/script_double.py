"""A script's side of the link, with the standard library only: the frames of `traindeck_watch`.

Scripts of tests import it by its path; it imports nothing of the project.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any


class Link:
    """A connection to the process of the rank, which answers a stop, a checkpoint and a pause."""

    def __init__(self, pid: int = 0) -> None:
        """`pid`: of the process that it seems to be; 0: this one."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ["TRAINDECK_LINK"])
        self._read = b""
        self.rank = int(os.environ["TRAINDECK_RANK"])
        self.step = int(os.environ["TRAINDECK_FIRST_STEP"])
        self.run = Path(os.environ["TRAINDECK_RUN_FOLDER"])
        self.schedule: dict[str, Any] = {}
        key = os.environ["TRAINDECK_LINK_KEY"]
        self.send("hello", key=key, pid=pid or os.getpid(), python="3", argv=[])
        atexit.register(self._say_goodbye)

    def _say_goodbye(self) -> None:
        with contextlib.suppress(OSError):
            self.send("ended")

    def send(self, kind: str, **frame: Any) -> None:
        content = json.dumps({"kind": kind, **frame}).encode()
        self._socket.sendall(struct.pack(">I", len(content)) + content)

    def train(self, loss: float | None = None, seconds: float = 0.01, **others: Any) -> None:
        """Do a step, and report it."""
        time.sleep(seconds)
        self.step += 1
        points = [] if loss is None else [["train/loss", [self.step], [loss], []]]
        self.send("points", points=points, step=self.step, step_seconds=seconds, **others)

    def acts(self) -> list[dict[str, Any]]:
        """Return the acts that have arrived."""
        self._socket.setblocking(False)
        try:
            while piece := self._socket.recv(65_536):
                self._read += piece
        except BlockingIOError:
            pass
        finally:
            self._socket.setblocking(True)
        found = []
        while len(self._read) >= 4:
            (length,) = struct.unpack(">I", self._read[:4])
            if len(self._read) < 4 + length:
                break
            frame = json.loads(self._read[4 : 4 + length])
            self._read = self._read[4 + length :]
            if frame["kind"] == "save_every":
                self.schedule = frame
            else:
                found.append(frame)
        return found

    def save(self, number: int = 0, **frame: Any) -> None:
        """Write this rank's part of a checkpoint."""
        folder = self.run / "checkpoints" / f"step-{self.step:08d}.tmp"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"rank{self.rank}.pt").write_bytes(b"weights of step %d" % self.step)
        self.send("saved", step=self.step, number=number, seconds=0.5, **frame)

    def obey(self) -> None:
        """Do what is asked, as `traindeck_watch` does at a step. Raises KeyboardInterrupt."""
        for act in self.acts():
            self._do(act)

    def _do(self, act: dict[str, Any]) -> None:
        what, number = act["what"], act["number"]
        if what in ("checkpoint", "stop") and act.get("save", True):
            self.save(number)
        if what == "stop":
            self.send("stopping", step=self.step, number=number)
            raise KeyboardInterrupt
        if what == "empty_cache":
            self.send("cache_emptied", device="cpu:0", freed=7)
        if what == "pause":
            self.send("paused", step=self.step)
            while True:
                acts = self.acts()
                for other in acts:
                    if other["what"] == "resume":
                        self.send("resumed", step=self.step)
                        return
                    self._do(other)
                time.sleep(0.01)
