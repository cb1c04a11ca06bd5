"""What an attempt of a script needs besides workers: a folder for its ranks, ports, its words."""

from __future__ import annotations

import json
import random
import shutil
import socket
from pathlib import Path

from engine.runs.checkpoints.script_files import Continuation, continuation
from engine.spec.run_spec import RunSpec
from engine.system.listener import private_folder
from engine.worker import environment

_PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections."""

FROM_THE_BEGINNING = Continuation((), 0, "")


class ScriptAttempt:
    """The things that the processes of a script's ranks share, for one attempt."""

    def __init__(self, run_folder: Path, spec: RunSpec) -> None:
        self._run_folder = run_folder
        self._spec = spec
        self._folder: Path | None = None

    def goes_on(self) -> Continuation:
        """Return how the command goes on, by the spec and the files that the script has written."""
        return continuation(self._run_folder, self._spec)

    def environment(
        self, ranks: int, how: Continuation, *, had_steps: bool = False
    ) -> dict[str, str]:
        """Make the folder of the ranks, and return the variables for their processes.

        `had_steps`: earlier attempts had steps that were seen. Raises OSError.
        """
        self.remove()
        self._folder = private_folder()
        return {
            environment.EXCHANGE: str(self._folder),
            environment.PORTS: ",".join(map(str, free_ports(ranks))),
            environment.CONTINUATION: json.dumps([how.words, how.first_step, had_steps]),
        }

    def remove(self) -> None:
        """Remove the folder of the ranks."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine on which no program listens now. Raises OSError."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
    if len(found) < count:
        raise OSError("no port of this machine is free")
    return found
