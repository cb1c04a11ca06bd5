"""A machine of a cluster for tests: a data folder and a loopback address of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from engine.processes.process import PROJECT

LONGEST = 300.0
"""Seconds for a command; only a test that fails waits so long."""


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when the condition holds; fail if it does not."""
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


class Answer(NamedTuple):
    """What a command has printed."""

    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        """The last line of its output."""
        return json.loads(self.output.splitlines()[-1])


class ClusterMachine:
    """Calls the command line as the user of another machine would."""

    def __init__(self, folder: Path, name: str, ip: str, prefix: Sequence[str] = ()) -> None:
        """`prefix`: the words before each command, such as for a network namespace."""
        self._prefix = prefix
        self.home = folder / name
        self.name = name
        self.ip = ip

    def call(
        self, *words: str, standard_input: str = "", variables: Mapping[str, str] | None = None
    ) -> Answer:
        """Carry out a command there, and wait for its end."""
        done = subprocess.run(
            [*self._prefix, sys.executable, str(PROJECT / "main.py"), *words],
            input=standard_input,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            env={**os.environ, "TRAINDECK_HOME": str(self.home), **(variables or {})},
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def begin(self) -> Answer:
        """Begin a cluster, at any port."""
        named = ("--name", self.name, "--host", self.ip)
        return self.call("cluster", "start", *named, "--port", "0", "--json")

    def join(self, head: str, token: str, *words: str) -> Answer:
        """Join the cluster of `head`; the token comes from standard input."""
        named = ("--name", self.name, "--host", self.ip)
        flags = (*named, "--token", "-", *words)
        return self.call("cluster", "join", head, *flags, standard_input=f"{token}\n")

    @property
    def node(self) -> psutil.Process:
        """The process with its Ray node."""
        return psutil.Process(json.loads((self.home / "cluster-node.json").read_text())["pid"])

    @property
    def raylet(self) -> psutil.Process | None:
        """Ray's own process there; None: it does not run now."""
        below = self.node.children(recursive=True)
        return next((each for each in below if each.name() == "raylet"), None)

    def kill_raylet(self) -> psutil.Process:
        """Kill Ray's own process, which is returned."""
        raylet = self.raylet
        assert raylet is not None
        raylet.kill()
        return raylet

    @property
    def token(self) -> str:
        """The token of its cluster."""
        return (self.home / "cluster-token").read_text()

    @property
    def log(self) -> str:
        """What the process with its Ray node has printed."""
        return (self.home / "logs" / "cluster.log").read_text()

    def sees(self) -> dict[str, bool]:
        """The machines of the cluster, and whether each is alive."""
        status = self.call("cluster", "status", "--json").json
        return {each["name"]: each["alive"] for each in status["machines"]}

    def leave(self) -> None:
        """End its Ray node, whatever it is in the cluster."""
        self.call("cluster", "leave")
        self.call("cluster", "stop")


def without(folder: Path) -> list[str]:
    """The words before a command that see an empty folder, which cannot be written, instead of
    `folder`."""
    hide = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", hide, str(folder)]


def cannot_hide() -> str:
    """Why `without` does not work here; empty: it does."""
    try:
        done = subprocess.run([*without(Path("/mnt")), "true"], capture_output=True)
    except OSError as error:
        return f"no command unshare: {error}"
    return done.stderr.decode()


@contextlib.contextmanager
def two_machines(
    folder: Path, prefix: Sequence[str] = ()
) -> Iterator[tuple[ClusterMachine, ClusterMachine]]:
    """Yield a head `desk`, and the machine `gpus` that has joined; they leave at the end.

    `prefix` is that of `gpus`.
    """
    desk = ClusterMachine(folder, "desk", "127.0.0.1")
    gpus = ClusterMachine(folder, "gpus", "127.0.0.2", prefix)
    try:
        begun = desk.begin()
        assert begun.code == 0, begun
        joined = gpus.join(begun.json["head"], desk.token)
        assert joined.code == 0, joined
        yield desk, gpus
    finally:
        gpus.leave()
        desk.leave()
