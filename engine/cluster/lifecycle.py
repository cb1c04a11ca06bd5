"""Begins a cluster, joins one, leaves it: what the command line does with this machine."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from engine.cluster import address as addresses
from engine.cluster import membership, node_file
from engine.cluster.address import Address, parse_address
from engine.cluster.membership import Cluster, ClusterError
from engine.cluster.node_file import NodeState, NodeStatus
from engine.cluster.node_process import AGAIN
from engine.processes import process_tree
from engine.processes.process import PROJECT, module_environment, start_module
from engine.system import paths
from engine.system.program import call

START_SECONDS = 120.0
END_SECONDS = 30.0
_TICK = 0.05
_MODULE = "engine.cluster.node_process"
_LOG = "cluster.log"


def start(name: str, host: str, port: int | None, ports: str) -> Cluster:
    """Begin a cluster with this machine as its head, or start the node of one that was begun.

    Nothing changes if that runs. Empty texts and None stand for the defaults. Returns when other
    machines can join. Raises ClusterError, UnusableAddress, OSError.
    """
    begun = _prepared(name)
    if begun is not None and not begun.is_head:
        raise ClusterError(
            f"This machine belongs to the cluster of {begun.head}: leave it first with "
            f"`{call('cluster leave')}`."
        )
    if begun is not None and (name or host or ports or port is not None):
        raise ClusterError(
            f"The cluster of this machine was begun before: call `{call('cluster start')}` without "
            f"options, or end it with `{call('cluster stop')}`."
        )
    if begun is None:
        ip = addresses.own_address(host) if host else addresses.default_address()
        begun = Cluster(
            head=str(
                Address(ip, addresses.free_port(addresses.DEFAULT_PORT if port is None else port))
            ),
            name=name or default_name(),
            ip=ip,
            is_head=True,
            member=secrets.token_hex(8),
            ports=addresses.port_range(ports) if ports else "",
        )
        membership.save(begun, secrets.token_hex(32))
        _start_node(undo=membership.forget)
    elif not _node_lives():
        if not (addresses.is_loopback(begun.ip) or addresses.interface_of(begun.ip)):
            raise ClusterError(
                f"This machine has the address {begun.ip} no more, with which its cluster was "
                f"begun: end it with `{call('cluster stop')}`, and begin another one."
            )
        addresses.free_port(parse_address(begun.head).port)
        _start_node()
    return begun


def join(
    head: str, token: str, name: str, host: str, ports: str
) -> tuple[Cluster, tuple[str, ...]]:
    """Join the cluster with the head HOST:PORT; without one, start the node of a known membership.

    Returns the membership, and what differs on the head and may. Returns when this machine can
    take part. Raises ClusterError, UnusableAddress, OSError.
    """
    known = _prepared(name)
    address = addresses.resolve(parse_address(head)) if head else None
    if known and address and (known.is_head or parse_address(known.head) != address):
        ending = "stop" if known.is_head else "leave"
        raise ClusterError(
            f"This machine belongs to the cluster of {known.head}: end that first with "
            f"`{call(f'cluster {ending}')}`."
        )
    if _node_lives():
        raise ClusterError(
            f"The Ray node of this machine runs already: `{call('cluster status')}` tells of it."
        )
    if address is None:
        if known is None or known.is_head:
            raise ClusterError(
                "Say which cluster to join: paste the line that its first machine has printed."
            )
        if name or host or ports:
            raise ClusterError(
                "This machine joins again as before: leave out --name, --host and --ports, or name "
                f"the head too, {known.head}."
            )
        return known, _start_node()
    joined = Cluster(
        head=str(address),
        name=name or (known.name if known else default_name()),
        ip=(addresses.own_address(host) if host else addresses.own_address_towards(address.host)),
        member=known.member if known else secrets.token_hex(8),
        ports=addresses.port_range(ports) if ports else (known.ports if known else ""),
    )
    membership.save(joined, _checked(token))
    return joined, _start_node(undo=membership.forget)


def leave() -> Cluster | None:
    """End the Ray node of this machine, and forget its cluster. Raises ClusterError, OSError."""
    try:
        found = membership.cluster()
        is_damaged = False
    except ClusterError:  # which this mends
        found, is_damaged = None, True
    if not is_damaged:
        _check_not_shared()
    if found is not None and found.is_head:
        raise ClusterError(
            f"This machine is the head of its cluster: `{call('cluster stop')}` ends the cluster."
        )
    end_node()
    membership.forget()
    return found


def stop() -> Cluster:
    """End the cluster that this machine is the head of. Raises ClusterError, OSError."""
    found = membership.this_cluster()
    if not found.is_head:
        raise ClusterError(
            f"This machine is not the head of its cluster: `{call('cluster leave')}` leaves it; "
            f"only the head, {found.head}, can end it."
        )
    end_node()
    membership.forget()
    return found


def become_node() -> NoReturn:
    """End the process with the Ray node, and become it, such as for systemd.

    Raises ClusterError, OSError.
    """
    membership.this_cluster()
    end_node()
    os.chdir(PROJECT)
    os.execve(
        sys.executable,
        [sys.executable, "-P", "-m", _MODULE],
        module_environment(os.environ | {AGAIN: "1"}),
    )


def default_name() -> str:
    """Return the short name of this host. Raises ClusterError if it cannot be one in a cluster."""
    name = socket.gethostname().partition(".")[0]
    if problem := membership.name_problem(name):
        raise ClusterError(problem)
    return name


def join_line(begun: Cluster, token: str) -> str:
    """Return the line to paste on the other machines."""
    return f"{call(f'cluster join {begun.head}')} --token {token}"


def node_text(status: NodeStatus | None) -> str:
    """Return what the Ray node of this machine does, in a sentence."""
    if status is None or not (status.lives or status.state is NodeState.REFUSED):
        again = call("cluster join")
        return f"The Ray node of this machine does not run: `{again}` (on the head: start) does."
    if status.text:
        return status.text
    return f"The Ray node of this machine is {status.state}."


def _prepared(name: str) -> Cluster | None:
    """Return the membership that there is. Raises ClusterError if this machine cannot have one."""
    membership.require_ray()
    if name and (problem := membership.name_problem(name)):
        raise ClusterError(problem)
    _check_not_shared()
    return membership.cluster()


def _check_not_shared() -> None:
    if host := membership.shared_with():
        raise ClusterError(
            f"The data folder, {paths.home()}, is shared with {host}, which has joined a cluster "
            "with it: set TRAINDECK_HOME to a folder of this machine alone. (If this machine had "
            f"that name: remove {membership.FILE_NAME} there.)"
        )


def _node_lives() -> bool:
    status = node_file.read()
    return status is not None and status.lives


def _checked(token: str) -> str:
    if not token.isascii() or not token.isalnum() or not 16 <= len(token) <= 256:
        raise ClusterError(
            "That is no token of a cluster: copy the whole line that the first machine has printed."
        )
    return token


def _start_node(undo: Callable[[], None] | None = None) -> tuple[str, ...]:
    """Start the process with the Ray node, and wait until it runs; else `undo`, and raise.

    Returns what differs on the head and may, in sentences.
    """
    log = paths.private_folder("logs") / _LOG
    process = start_module(_MODULE, log=log, own_session=True)
    deadline = time.monotonic() + START_SECONDS
    try:
        while time.monotonic() < deadline:
            status = node_file.read()
            if status is not None and status.pid == process.pid:
                if status.state is NodeState.RUNNING:
                    process.returncode = 0  # it goes on without this process
                    return status.differs
                if status.state is NodeState.REFUSED:
                    raise ClusterError(status.text)
            if process.poll() is not None:
                raise ClusterError(
                    f"The Ray node ended at once, with the code {process.returncode}; see {log}."
                )
            time.sleep(_TICK)
        raise ClusterError(f"The Ray node did not start within {START_SECONDS:.0f} s; see {log}.")
    except BaseException:
        process_tree.end([(process.pid, process_tree.stat(process.pid).created)], END_SECONDS)
        process.wait()
        node_file.remove()
        if undo is not None:
            undo()
        raise


def end_node() -> None:
    """End the process with the Ray node, and all that Ray has started."""
    status = node_file.read()
    if status is not None and status.lives:
        process_tree.end([status.identity], END_SECONDS)
    node_file.remove()
