"""A machine of a cluster for tests: a data folder and a loopback address of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from engine.processes.process import PROJECT

LONGEST = 300.0
"""Seconds for a command; only a test that fails waits so long."""


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

    def __init__(self, folder: Path, name: str, ip: str) -> None:
        self.home = folder / name
        self.name = name
        self.ip = ip

    def call(
        self, *words: str, standard_input: str = "", variables: Mapping[str, str] | None = None
    ) -> Answer:
        """Carry out a command there, and wait for its end."""
        done = subprocess.run(
            [sys.executable, str(PROJECT / "main.py"), *words],
            input=standard_input,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            env={**os.environ, "TRAINDECK_HOME": str(self.home), **(variables or {})},
        )
        return Answer(done.returncode, done.stdout, done.stderr)

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
    def log(self) -> str:
        """What the process with its Ray node has printed."""
        return (self.home / "logs" / "cluster.log").read_text()

    def leave(self) -> None:
        """End its Ray node, whatever it is in the cluster."""
        self.call("cluster", "leave")
        self.call("cluster", "stop")
