"""How the workers of a TensorFlow cluster find each other, and who else reaches their ports."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from engine.files.atomic_file import write_atomically
from engine.training.errors import TrainingFailed
from engine.worker import environment

LOOPBACK = "127.0.0.1"
JOB = "worker"
_DEVICE = b"lo"
_POLL_SECONDS = 0.01
_LOOK_SECONDS = 1.0
_WARN_AFTER_SECONDS = 20.0
"""After this time the log names the missing ranks."""


def rank_addresses() -> list[str]:
    """Return the address (IP:PORT) of each rank of a run over several machines; else none."""
    given = os.environ.get(environment.ADDRESSES, "")
    return given.split(",") if given else []


@contextlib.contextmanager
def joined_cluster(rank: int, world_size: int) -> Iterator[None]:
    """Set `TF_CONFIG`, and reserve a port for TensorFlow's server during the context.

    All ranks must call it. Each rank reserves a free port and writes its number to a file beside
    the rendezvous. The ranks wait for each other here, before TensorFlow starts, because TensorFlow
    holds the GIL while it waits: no thread runs and no signal is handled. The supervisor ends a
    wait that takes too long.

    Without a rendezvous, `TF_CONFIG` of another launcher stays as it is. Raises TrainingFailed when
    there is neither.
    """
    if addresses := rank_addresses():  # whose ports are reserved by the supervisor
        _set_configuration(addresses, rank)
        yield
        restrict_ports()
        return
    rendezvous = os.environ.get(environment.RENDEZVOUS)
    if not rendezvous:
        if "TF_CONFIG" not in os.environ:
            raise TrainingFailed(
                "This worker was started without TF_CONFIG: it does not know its cluster. Start "
                "the run with main.py, or set TF_CONFIG in the worker's environment."
            )
        yield
        return
    with _reserved_port() as port:
        port_file = _port_file(rendezvous, rank)
        write_atomically(port_file, str(port))
        ports = _ports(rendezvous, world_size)
        _set_configuration([f"{LOOPBACK}:{port}" for port in ports], rank)
        yield
        restrict_ports()
        port_file.unlink()  # all ranks have joined, so all have read it


def _set_configuration(addresses: Sequence[str], rank: int) -> None:
    task = {"type": JOB, "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {JOB: [*addresses]}, "task": task})


def leave_cluster(rank: int, world_size: int) -> None:
    """Wait until every rank has called this.

    A rank must answer the other ranks until their last collective is over; otherwise they see a
    failed rank. Without a rendezvous, return at once.
    """
    if rank_addresses():
        _leave_machines(rank, world_size)
        return
    rendezvous = os.environ.get(environment.RENDEZVOUS)
    if rendezvous:
        write_atomically(_leave_file(rendezvous, rank), "")
        while not all(_leave_file(rendezvous, other).exists() for other in range(world_size)):
            time.sleep(_POLL_SECONDS)


def _leave_machines(rank: int, world_size: int) -> None:
    """Wait for ranks on several machines, which share no files: by TensorFlow's own service."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    service = context.context()
    with contextlib.suppress(tf.errors.OpError):  # rank 0, which serves, leaves last or has left
        service.set_config_key_value(f"left{rank}", "1")
        for other in range(world_size):
            service.get_config_key_value(f"left{other}")


def restrict_ports() -> None:
    """Make the ports that this process listens on reachable from this machine only, and cut the
    connections that others made before.

    TensorFlow's servers listen on every interface, without authentication, and have no option to
    change that. In a run over several machines, connections from any other machine are cut, within
    a second.
    """
    if addresses := rank_addresses():
        machines = {address.rpartition(":")[0] for address in addresses}
        threading.Thread(target=_cut_all_strangers, args=(machines,), daemon=True).start()
        return
    if not hasattr(socket, "SO_BINDTODEVICE"):
        return  # only Linux can bind a listening socket to an interface
    restricted = _restrict_listeners()
    _cut_strangers(restricted)
    # A connection that was just being made, or that TensorFlow has not taken yet, is still unknown.
    threading.Thread(target=_cut_late_strangers, args=(restricted,), daemon=True).start()


def _restrict_listeners() -> set[int]:
    """Let the listening TCP sockets of this process accept only connections from this machine.

    Return their ports.
    """
    ports = set()
    for end in _own_sockets():
        if not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            continue
        port = end.getsockname()[1]
        ports.add(port)
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0") == _DEVICE:
            continue
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _DEVICE + b"\0")
        except PermissionError:  # before Linux 5.7 only root may do this
            print(
                f"Port {port} of TensorFlow can be reached from other machines: have a firewall "
                "close it, or use Linux 5.7 or newer."
            )
    return ports


def _cut_late_strangers(ports: set[int]) -> None:
    for seconds in (0.1, 0.4, 1.5, 5.0):
        time.sleep(seconds)
        _cut_strangers(ports)


def _cut_all_strangers(machines: set[str]) -> None:
    """Cut what does not come from `machines`, as long as this process runs."""
    ports: set[int] = set()
    while True:
        ports |= _listening_ports()
        _cut_strangers(ports, machines)
        time.sleep(_LOOK_SECONDS)


def _listening_ports() -> set[int]:
    return {
        int(end.getsockname()[1])
        for end in _own_sockets()
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    }


def _cut_strangers(ports: set[int], machines: Collection[str] = ()) -> None:
    """Shut down the connections to `ports` that come neither over the loopback interface nor from
    one of `machines`."""
    for end in _own_sockets():
        with contextlib.suppress(OSError):  # it is closed at this moment, or is not connected
            own, peer = end.getsockname(), end.getpeername()
            is_local = _is_loopback(own[0]) and _is_loopback(peer[0])
            if own[1] in ports and not is_local and _plain(peer[0]) not in machines:
                end.shutdown(socket.SHUT_RDWR)
                print(f"A connection of {peer[0]} to port {own[1]} of TensorFlow was cut.")


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(_plain(address)).is_loopback


def _plain(address: str) -> str:
    """Return an IPv4 address as such, also where the socket is one of IPv6."""
    return address.removeprefix("::ffff:").partition("%")[0]


def _own_sockets() -> Iterator[socket.socket]:
    """Yield a copy of each TCP socket of this process."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # ten times as fast as a Path
        try:
            copy = os.dup(int(name))
        except OSError:
            continue  # it is closed at this moment
        try:
            end = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            continue  # no socket
        with end:
            if end.family in (socket.AF_INET, socket.AF_INET6) and end.type == socket.SOCK_STREAM:
                yield end


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """Reserve a free port in this context; only servers of this user can open it."""
    with socket.socket() as holder:
        # Two sockets with this option may share a port if only one of them listens.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        port = int(holder.getsockname()[1])
        if sys.platform != "linux":
            holder.close()  # elsewhere the option has another meaning
        yield port


def _ports(rendezvous: str, world_size: int) -> list[int]:
    """Wait for the port files of all ranks, and return the ports."""
    files = [_port_file(rendezvous, rank) for rank in range(world_size)]
    warn_at = time.monotonic() + _WARN_AFTER_SECONDS
    while missing := [rank for rank, file in enumerate(files) if not file.exists()]:
        if time.monotonic() > warn_at:
            warn_at = float("inf")
            print(f"Still waiting for ranks {', '.join(map(str, missing))} to start.", flush=True)
        time.sleep(_POLL_SECONDS)
    return [int(file.read_text()) for file in files]


def _port_file(rendezvous: str, rank: int) -> Path:
    return Path(f"{rendezvous}.rank{rank}")


def _leave_file(rendezvous: str, rank: int) -> Path:
    return Path(f"{rendezvous}.left{rank}")
