"""The process with the Ray node of this machine: it starts Ray, watches it, and joins again.

It ends Ray when it gets SIGTERM. When it is killed, the kernel kills Ray's processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from filelock import FileLock, Timeout

from engine.cluster import membership, node_file
from engine.cluster.address import (
    UnusableAddress,
    interface_of,
    is_loopback,
    is_reachable,
    own_address_towards,
    parse_address,
)
from engine.cluster.head import Head, Unreachable
from engine.cluster.member import AMOUNT, LABEL, resource
from engine.cluster.membership import Cluster, ClusterError
from engine.cluster.node_file import NodeState, NodeStatus
from engine.cluster.versions import differences, own_versions
from engine.processes import process_tree
from engine.system import logs, paths

LOCK_NAME = "cluster.lock"
AGAIN = "TRAINDECK_CLUSTERAGAIN"
"""The variable that tells this process to wait for the head, as after the loss of its node."""

_PREFIX = "td-ray-"
"""Of the temporary folders with Ray's sockets and logs; short, as the system limits their paths."""

_LOOK_SECONDS = 0.5
_RETRY_SECONDS = 2.0
_MEMBERSHIP_SECONDS = 5.0
_ABSENCES = 2
"""So often in turn the head must not know this node: one that has just begun may be missing."""

_SHORT_LIFE = 20.0
_PAUSE = 5.0
"""Seconds before a Ray node is started again that has ended soon."""

_OBJECT_STORE = 256 * 2**20
"""Bytes of shared memory for what is sent between machines; it is used when it is needed."""

_OPEN_FOLDER = "r"
"""In the temporary folder, what Ray lets all users of this machine write into."""

_LONGEST_FOLDER = 22
"""Characters of a folder in which Ray's sockets still have paths that the system allows."""


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
    try:
        _run(joined, waits=os.environ.pop(AGAIN, "") == "1")
    except _Ended:
        node_file.remove()
        return 0
    except Exception as error:  # Ray raises many; the user gets a sentence
        text = _sentence(joined, error)
        _tell(NodeState.REFUSED, text)
        return _complain(text)
    _start_again()
    return 0


def _run(joined: Cluster, *, waits: bool) -> None:
    """Start the Ray node, and return when it has ended and is to be started again.

    `waits`: wait for the head, and try again what fails; else raise.
    """
    folder, node = "", None
    begun = time.monotonic()
    try:
        _tell(NodeState.WAITING if waits else NodeState.STARTING)
        if not joined.is_head:
            joined = with_own_address(joined)
            _register(joined, waits=waits)
        folder = _make_ray_folder()
        _tell(NodeState.STARTING, "", folder)
        node = _start_node(joined, folder)
        if joined.is_head:
            _register(joined, waits=False)
        _tell(NodeState.RUNNING, "", folder)
        text = _wait_for_end(joined, node)
    except ClusterError:
        raise
    except _Ended:
        with suppress(ClusterError):
            _release(joined)
        raise
    except Exception as error:  # Ray raises many
        if not waits:
            raise
        text = _sentence(joined, error)
    finally:
        _stop(node, folder)
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


def _start_again() -> NoReturn:
    """Begin anew with the same process number: Ray's state in this process is not of use again."""
    os.environ[AGAIN] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


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


def _register(joined: Cluster, *, waits: bool) -> None:
    """Claim this machine's name at the head; with `waits`, wait until the head answers.

    Raises ClusterError.
    """
    address = parse_address(joined.head)
    while True:
        try:
            head = Head(address)
            if not joined.is_head:
                check_versions(head)
            head.claim(joined, own_versions())
            return
        except Unreachable as error:
            if not waits:
                raise
            _tell(NodeState.WAITING, str(error))
            while not is_reachable(address, _RETRY_SECONDS):
                time.sleep(_RETRY_SECONDS)
            time.sleep(_RETRY_SECONDS)


def check_versions(head: Head) -> tuple[str, ...]:
    """Return what differs from the head's software and may, in sentences. Raises ClusterError."""
    first = next((each for each in head.records().values() if each.is_head), None)
    if first is None:
        raise Unreachable(
            "The head is about to start, or it is a Ray cluster that Traindeck has not begun."
        )
    found = differences(own_versions(), first.versions, first.name)
    if found.refused:
        raise ClusterError(
            " ".join(found.refused) + " They have to be equal on all machines of a cluster: "
            "install the same versions here."
        )
    return found.told


def _release(joined: Cluster) -> None:
    address = parse_address(joined.head)
    if not joined.is_head and is_reachable(address, 1.0):
        Head(address).release(joined)


def _start_node(joined: Cluster, folder: str) -> Any:
    """Start Ray's processes here, and return the object that watches them."""
    membership.ray_module()
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    class BareNode(Node):  # type: ignore[misc]  # Ray is untyped here
        def start_api_server(self, **_: object) -> None:
            """Start no dashboard, also not the small one that Ray starts otherwise."""

    first, last = map(int, (joined.ports or "0-0").split("-"))
    fixed = range(first, first + 6) if first else (0,) * 6
    parameters = RayParams(
        node_ip_address=joined.ip,
        node_name=joined.name,
        gcs_address=None if joined.is_head else joined.head,
        redis_address=None if joined.is_head else joined.head,
        gcs_server_port=parse_address(joined.head).port if joined.is_head else None,
        node_manager_port=fixed[0],
        object_manager_port=fixed[1],
        runtime_env_agent_port=fixed[2] or None,
        metrics_agent_port=fixed[3] or None,
        metrics_export_port=fixed[4] or None,
        dashboard_agent_listen_port=fixed[5] or None,
        min_worker_port=first + 6 if first else 0,
        max_worker_port=last,
        num_cpus=1,  # Ray starts so many processes in advance
        num_gpus=0,
        object_store_memory=_OBJECT_STORE,
        resources={resource(joined.name): AMOUNT},
        labels={LABEL: joined.name},
        temp_dir=str(Path(folder, _OPEN_FOLDER)),
        no_monitor=True,
        include_log_monitor=False,
        include_dashboard=False,
    )
    return BareNode(parameters, head=joined.is_head, shutdown_at_exit=False, spawn_reaper=True)


def _wait_for_end(joined: Cluster, node: Any) -> str:
    """Wait until the Ray node is of no use any more, and return why, in a sentence."""
    is_left_out = threading.Event()
    watch = threading.Thread(
        target=_watch_membership, args=(joined, node.node_id, is_left_out), daemon=True
    )
    watch.start()  # the head may be slow to answer, and an end is to be seen at once
    while not is_left_out.wait(_LOOK_SECONDS):
        if dead := node.dead_processes():
            return f"Ray's process {dead[0][0]} has ended: the node is started again."
    return "The head does not know this machine any more: it joins again."


def _watch_membership(joined: Cluster, node_id: str, is_left_out: threading.Event) -> None:
    """Set the event when the head answers, and the Ray node of this machine is not a living one.

    So it is after a restart of the head, and after a loss of the network: Ray may notice that late.
    """
    absences = 0
    while absences < _ABSENCES:
        time.sleep(_MEMBERSHIP_SECONDS)
        try:
            is_present = Head(parse_address(joined.head)).alive().get(joined.name) == node_id
        except ClusterError:  # the head is away
            continue
        absences = 0 if is_present else absences + 1
    is_left_out.set()


def _stop(node: Any, folder: str) -> None:
    """End all that Ray has started here."""
    below = process_tree.descendants([os.getpid()])
    if node is not None:
        node.kill_all_processes(check_alive=False, allow_graceful=True, wait=True)
    process_tree.end(below, 5.0)
    _remove_ray_folder(folder)


def _make_ray_folder() -> str:
    """Make a folder that only its owner can enter."""
    base = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix=_PREFIX, dir=base if len(base) <= _LONGEST_FOLDER else "/tmp")


def _remove_ray_folder(folder: str) -> None:
    if folder and Path(folder).name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _sentence(joined: Cluster, error: Exception) -> str:
    if isinstance(error, ClusterError | UnusableAddress):
        return str(error)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".")
    return f"Ray's node of this machine, {joined.name}, could not be started: {reason}."


def _tell(state: NodeState, text: str = "", folder: str = "") -> None:
    pid = os.getpid()
    created = process_tree.stat(pid).created
    node_file.write(NodeStatus(pid=pid, created=created, state=state, text=text, ray_folder=folder))


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
