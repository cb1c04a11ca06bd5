"""The process with the Ray node of this machine: it starts Ray, watches it, and joins again.

It ends Ray when it gets SIGTERM. When it is killed, the kernel kills Ray's processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

import msgspec
from filelock import FileLock, Timeout

from engine.cluster import membership, new_node, node_file
from engine.cluster.address import (
    UnusableAddress,
    interface_of,
    is_loopback,
    is_reachable,
    own_address_towards,
    parse_address,
)
from engine.cluster.membership import Cluster, ClusterError
from engine.cluster.node_file import NodeState, NodeStatus
from engine.cluster.ray_node import RayNode
from engine.processes import process_tree
from engine.system import logs, paths
from engine.system.program import call

LOCK_NAME = "cluster.lock"
AGAIN = "TRAINDECK_CLUSTERAGAIN"
"""The variable that tells this process to wait for the head, as after the loss of its node."""

_PREFIX = "td-ray-"
"""Of the temporary folders with Ray's sockets and logs; short, as the system limits their paths."""

_REACH_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_RETRY_SECONDS = 2.0
_SHORT_LIFE = 20.0
_PAUSE = 5.0
"""Seconds before a Ray node is started again that has ended soon."""

_LONGEST_FOLDER = 22
"""Characters of a folder in which Ray's sockets still have paths that the system allows."""


class _NotNow(OSError):
    """The Ray node cannot be in the cluster now; the text is a sentence."""


class _Ended(BaseException):
    """This process was asked to end."""


def main() -> int:
    """Run the Ray node of this machine until it is asked to end; return the exit code."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal of `cluster start` may close
    logs.start("cluster-node")
    try:
        lock = FileLock(paths.home() / LOCK_NAME, mode=0o600)
        lock.acquire(timeout=0)
    except Timeout:
        return _complain("Another process has the Ray node of this machine.")
    joined = membership.cluster()
    if joined is None:
        return _complain("This machine is in no cluster.")
    if before := node_file.read():
        _remove_ray_folder(before.ray_folder)
    waits = os.environ.pop(AGAIN, "") == "1"
    try:
        while True:
            _run(joined, waits=waits)
            waits = True
    except _Ended:
        node_file.remove()
        return 0
    except (ClusterError, UnusableAddress, OSError) as error:
        text = _sentence(joined, error)
        _tell(NodeState.REFUSED, text)
        return _complain(text)


def _run(joined: Cluster, *, waits: bool) -> None:
    """Start the Ray node, and return when it has ended and is to be started again.

    `waits`: wait for the head, and try again what fails; else raise. Raises ClusterError if this
    machine is refused.
    """
    folder, node = "", None
    begun = time.monotonic()
    try:
        _tell(NodeState.WAITING if waits else NodeState.STARTING)
        if not joined.is_head:
            joined = with_own_address(joined)
            _await_head(joined, waits=waits)
        folder = _make_ray_folder()
        _tell(NodeState.STARTING, "", folder)
        node = RayNode(joined, folder)
        _tell(NodeState.RUNNING, "", folder, () if joined.is_head else _check(node))
        while not node.has_ended:
            time.sleep(_LOOK_SECONDS)
        text = "Ray's processes have ended: the node is started again."
    except (UnusableAddress, OSError) as error:
        if not waits:
            raise
        text = _sentence(joined, error)
    finally:
        if node is not None:
            node.end()
        _remove_ray_folder(folder)
    is_short = time.monotonic() - begun < _SHORT_LIFE
    if is_short and not joined.is_head:
        text += (
            f" It ran for a short time: does the head reach this machine, {joined.ip}, or does a "
            "firewall lie between?"
        )
    _say(text)
    _tell(NodeState.WAITING, text)
    if is_short:
        time.sleep(_PAUSE)


def with_own_address(joined: Cluster) -> Cluster:
    """Return the membership with the address that this machine has now: it may have got another.

    Raises UnusableAddress, OSError.
    """
    if is_loopback(joined.ip) or interface_of(joined.ip):
        return joined
    ip = own_address_towards(parse_address(joined.head).host)
    moved = msgspec.structs.replace(joined, ip=ip)
    membership.save(moved, membership.token())
    return moved


def _await_head(joined: Cluster, *, waits: bool) -> None:
    """Return when the head accepts connections. Raises ClusterError if it is not to be awaited."""
    address = parse_address(joined.head)
    while not is_reachable(address, _REACH_SECONDS):
        text = (
            f"The head of the cluster does not answer at {address}: is that machine on, is "
            f"`{call('cluster start')}` running there, and does no firewall lie between?"
        )
        if not waits:
            raise ClusterError(text)
        _tell(NodeState.WAITING, text)
        time.sleep(_RETRY_SECONDS)


def _check(node: RayNode) -> tuple[str, ...]:
    """Return what differs on the head and may, in sentences. Raises ClusterError, OSError."""
    answer = new_node.ask(node.begun)
    if answer.refusal:
        raise ClusterError(answer.refusal)
    if answer.problem:
        raise _NotNow(answer.problem)
    return answer.differs


def _make_ray_folder() -> str:
    """Make a folder that only its owner can enter."""
    base = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix=_PREFIX, dir=base if len(base) <= _LONGEST_FOLDER else "/tmp")


def _remove_ray_folder(folder: str) -> None:
    if folder and Path(folder).name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _sentence(joined: Cluster, error: Exception) -> str:
    if isinstance(error, ClusterError | UnusableAddress | _NotNow):
        return str(error)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".")
    return f"Ray's node of this machine, {joined.name}, could not be started: {reason}."


def _tell(
    state: NodeState, text: str = "", folder: str = "", differs: tuple[str, ...] = ()
) -> None:
    pid = os.getpid()
    created = process_tree.stat(pid).created
    node_file.write(
        NodeStatus(
            pid=pid, created=created, state=state, text=text, ray_folder=folder, differs=differs
        )
    )


def _say(text: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


def _complain(text: str) -> int:
    _say(text)
    return 1


def _end(number: int, frame: object) -> NoReturn:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # the end is not to be disturbed
    raise _Ended


if __name__ == "__main__":
    sys.exit(main())
