"""Ray's processes on this machine: started by the program `ray start`, and ended."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from engine.cluster import membership
from engine.cluster.address import LOOPBACK, parse_address
from engine.cluster.member import BEGUN, LABEL, MEMBER
from engine.cluster.membership import Cluster, ClusterError
from engine.processes import process_tree
from engine.processes.process import PROJECT, module_environment
from engine.system.program import call

START_SECONDS = 60.0
END_SECONDS = 5.0

_MODULE = "engine.cluster.ray_start"
_STARTED = "Ray runtime started"
_OUTPUT = "start.txt"
_TICK = 0.05

_OBJECT_STORE = 256 * 2**20
"""Bytes of shared memory for what is sent between machines; it is used when it is needed."""

_OPEN_FOLDER = "r"
"""In the temporary folder, what Ray lets all users of this machine write into."""

_NO_PORT = "65536"
"""Ray starts no dashboard where its port cannot be; otherwise a small one, also without one."""

_LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \S+\t\w+ \S+ -- ", re.MULTILINE)


class RayNode:
    """Ray's processes on this machine. Ray kills them all when one has ended."""

    def __init__(self, joined: Cluster, folder: str) -> None:
        """Start them, with sockets and logs in `folder`; they are in the cluster when it returns.

        Raises ClusterError if the head refuses this machine, and OSError.
        """
        self.begun = str(time.time_ns() // 10**6)
        """The label of this node that no earlier one of this machine has."""

        environment = membership.process_environment()
        if not joined.is_head:  # with it, `ray start` refuses to join any head
            environment.pop(membership.ONE_MACHINE, None)
        self._output = Path(folder, _OUTPUT)
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, *start_words(joined, folder, self.begun)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=PROJECT,
                env=module_environment(environment),
            )
        try:
            self._wait_until_started(joined)
        except BaseException:
            self.end()
            raise

    @property
    def has_ended(self) -> bool:
        """Whether one of Ray's processes has ended, and so all."""
        return self._process.poll() is not None

    def end(self) -> None:
        """End all that Ray has started here."""
        below = process_tree.descendants([self._process.pid])
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._process.kill()
        self._process.wait()
        process_tree.end(below, END_SECONDS)

    def _wait_until_started(self, joined: Cluster) -> None:
        deadline = time.monotonic() + START_SECONDS
        while _STARTED not in (text := self._output.read_text(errors="replace")):
            if self.has_ended:
                raise _failure(joined, text)
            if time.monotonic() > deadline:
                raise OSError(
                    f"it did not start within {START_SECONDS:.0f} s; is {joined.head} the head of "
                    "a cluster?"
                )
            time.sleep(_TICK)


def start_words(joined: Cluster, folder: str, begun: str) -> list[str]:
    """Return the options of `ray start`; `begun` is a label."""
    first, last = map(int, (joined.ports or "0-0").split("-"))
    labels = {LABEL: joined.name, MEMBER: joined.member, BEGUN: begun}
    options: dict[str, object] = {
        **(_as_head(joined) if joined.is_head else _as_member(joined)),
        "node-name": joined.name,
        "min-worker-port": first + 6 if first else 0,
        "max-worker-port": last,
        "dashboard-agent-listen-port": first + 5 if first else 0,
        "num-cpus": 1,  # Ray starts so many processes in advance
        "num-gpus": 0,
        "object-store-memory": _OBJECT_STORE,
        "labels": ",".join(f"{name}={value}" for name, value in labels.items() if value),
        "temp-dir": str(Path(folder, _OPEN_FOLDER)),
        "include-log-monitor": False,
    }
    if first:
        options |= {
            "node-manager-port": first,
            "object-manager-port": first + 1,
            "runtime-env-agent-port": first + 2,
            "dashboard-agent-grpc-port": first + 3,
            "metrics-export-port": first + 4,
        }
    flags = ("--block", "--head", "--no-monitor") if joined.is_head else ("--block",)
    return [*flags, *(f"--{name}={value}" for name, value in options.items())]


def _as_head(joined: Cluster) -> dict[str, object]:
    return {
        "node-ip-address": joined.ip,
        "port": parse_address(joined.head).port,
        "include-dashboard": False,
        "dashboard-port": _NO_PORT,
    }


def _as_member(joined: Cluster) -> dict[str, object]:
    head = parse_address(joined.head)
    # Ray would replace 127.0.0.1 by another address, where a head on 127.0.0.1 does not listen; it
    # leaves another spelling alone, and finds 127.0.0.1 as the own address towards that head.
    host = "LOCALHOST" if head.host == LOOPBACK else head.host
    address: dict[str, object] = {"address": f"{host}:{head.port}"}
    return address if joined.ip == LOOPBACK else address | {"node-ip-address": joined.ip}


def _failure(joined: Cluster, output: str) -> Exception:
    """Return why `ray start` has ended, from what it has printed."""
    if "AuthenticationError" in output:
        return ClusterError(
            f"The head at {joined.head} refuses the token: copy the whole line that it has "
            f"printed; `{call('cluster start')}` prints it there again."
        )
    text = _LOGGED.sub("", output).strip()
    _, mismatch, versions = text.partition("Version mismatch: ")
    if mismatch:
        return ClusterError(
            f"{' '.join(versions.split())[:300].rstrip('.')}. They have to be equal on all "
            "machines of a cluster: install the same versions here."
        )
    return OSError(text.splitlines()[-1][:300] if text else "it ended at once")
