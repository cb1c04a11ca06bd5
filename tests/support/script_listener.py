"""Stands in for the process that listens to a watched script: keeps its frames, sends commands."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from engine.script_rank import frames

IN_SCRIPT = Path(__file__).resolve().parents[2] / "resources" / "in_script"
SECONDS = 240.0
"""Longest wait; only a test that fails waits so long."""

Frame = dict[str, Any]


class ScriptListener:
    """The other end of the link, and the environment of a script that is watched by it."""

    def __init__(self, folder: Path, rank: int = 0, world: int = 1) -> None:
        """`folder` is short, private, and the same for all ranks of a run."""
        self.folder = folder
        self.frames: list[Frame] = []
        self.refused: list[str] = []
        """Why frames are none that Traindeck takes: it would leave them out."""

        self.connections = 0
        self.greeting: Frame | None = None
        """Sent to each process that connects, as the settings of the run are."""

        self._rank = rank
        self._world = world
        self._path = folder / f"l{rank}"
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self._path))
        self._server.listen()
        self._open: list[socket.socket] = []
        self._change = threading.Condition()
        self._accepts = threading.Thread(target=self._accept, daemon=True)
        self._accepts.start()

    def __enter__(self) -> ScriptListener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._open:
            connection.close()
        assert error is not None or not self.refused, self.refused

    @property
    def environment(self) -> dict[str, str]:
        """What is added to the script's environment."""
        return {
            "PYTHONPATH": str(IN_SCRIPT),
            "TRAINDECK_LINK": str(self._path),
            "TRAINDECK_LINK_KEY": "key",
            "TRAINDECK_RUN_FOLDER": str(self.folder / "run"),
            "TRAINDECK_AGREEMENT": str(self.folder / "agreement"),
            "TRAINDECK_RANK": str(self._rank),
            "TRAINDECK_WORLD": str(self._world),
        }

    def start(
        self,
        *arguments: str,
        python: str = sys.executable,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        output: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start a Python program that is watched; its output is captured, or goes to `output`."""
        return subprocess.Popen(
            [python, *arguments],
            env=without_watch() | self.environment | dict(variables or {}),
            cwd=folder or self.folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def send(self, **frame: Any) -> None:
        """Send a frame to every process that has connected."""
        body = json.dumps(frame).encode()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.sendall(struct.pack(">I", len(body)) + body)

    def act(self, what: str, number: int = 1, **details: Any) -> None:
        """Send a command."""
        self.send(kind="act", what=what, number=number, **details)

    def of_kind(self, kind: str) -> list[Frame]:
        """Frames of this kind, in their order."""
        return [frame for frame in list(self.frames) if frame.get("kind") == kind]

    def wait_for(self, kind: str, count: int = 1) -> Frame:
        """Wait until so many frames of this kind have come; return the last of them."""
        end = time.monotonic() + SECONDS
        with self._change:
            while len(found := self.of_kind(kind)) < count:
                left = end - time.monotonic()
                assert left > 0, f"no {kind}: {self.summary()}"
                self._change.wait(left)
        return found[count - 1]

    def wait_for_step(self, step: int) -> None:
        """Wait until the script has made so many steps."""
        end = time.monotonic() + SECONDS
        with self._change:
            while self.step < step:
                left = end - time.monotonic()
                assert left > 0, f"no step {step}: {self.summary()}"
                self._change.wait(left)

    @property
    def step(self) -> int:
        """The last step that was told."""
        return max((frame["step"] for frame in self.of_kind("points")), default=0)

    @property
    def series(self) -> dict[str, list[tuple[int, float]]]:
        """All points so far: steps and values by series."""
        return self.series_of(*range(self.connections))

    def series_of(self, *connections: int) -> dict[str, list[tuple[int, float]]]:
        """The points of some processes, by the number of their connection."""
        found: dict[str, list[tuple[int, float]]] = {}
        for frame in self.of_kind("points"):
            if frame["connection"] not in connections:
                continue
            for name, steps, values, _ in frame["points"]:
                found.setdefault(name, []).extend(zip(steps, values, strict=True))
        return found

    def values(self, series: str) -> list[float]:
        """The values of a series."""
        return [value for _, value in self.series.get(series, [])]

    @property
    def notices(self) -> list[str]:
        """What a person was told."""
        return [frame["text"] for frame in self.of_kind("notice")]

    def summary(self) -> str:
        """For the message of a test that fails."""
        return f"{[frame.get('kind') for frame in self.frames]}, {self.notices}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._open.append(connection)
            number, self.connections = self.connections, self.connections + 1
            if self.greeting is not None:
                self.send(**self.greeting)
            threading.Thread(target=self._read, args=(connection, number), daemon=True).start()

    def _read(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while header := stream.read(4):
                body = stream.read(struct.unpack(">I", header)[0])
                frame = json.loads(body)
                try:
                    msgspec.convert(frame, frames.Frame)
                except msgspec.ValidationError as refusal:
                    self.refused.append(f"{frame}: {refusal}")
                with self._change:
                    self.frames.append(frame | {"connection": number})
                    self._change.notify_all()


def finished(program: subprocess.Popen[str]) -> str:
    """Wait until a program has ended well, and return what it printed."""
    output, _ = program.communicate(timeout=SECONDS)
    assert program.returncode == 0, output
    return output


def without_watch() -> dict[str, str]:
    """The environment of a script that runs alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINDECK_")}
    kept.pop("PYTHONPATH", None)
    return kept


@contextlib.contextmanager
def listening(folder: Path, world: int = 1) -> Iterator[list[ScriptListener]]:
    """A listener for each rank."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(ScriptListener(folder, rank, world)) for rank in range(world)]
