"""How the workers of a TensorFlow cluster find each other, on this machine only."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from engine.system.atomic_file import write_atomically
from engine.training.errors import TrainingFailed
from engine.worker import environment

LOOPBACK = "127.0.0.1"
JOB = "worker"
_POLL_SECONDS = 0.01
_WARN_AFTER_SECONDS = 20.0
"""After this time the log names the missing ranks."""


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
        addresses = [f"{LOOPBACK}:{port}" for port in _ports(rendezvous, world_size)]
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": {JOB: addresses}, "task": {"type": JOB, "index": rank}}
        )
        yield
        port_file.unlink()  # all ranks have joined, so all have read it
    restrict_ports_to_loopback()


def leave_cluster(rank: int, world_size: int) -> None:
    """Wait until every rank has called this.

    A rank must answer the other ranks until their last collective is over; otherwise they see a
    failed rank. Without a rendezvous, return at once.
    """
    rendezvous = os.environ.get(environment.RENDEZVOUS)
    if rendezvous:
        write_atomically(_leave_file(rendezvous, rank), "")
        while not all(_leave_file(rendezvous, other).exists() for other in range(world_size)):
            time.sleep(_POLL_SECONDS)


def restrict_ports_to_loopback() -> None:
    """Make the ports that this process listens on reachable from this machine only.

    TensorFlow's servers listen on every interface, without authentication, and have no option to
    change that.
    """
    to_device = getattr(socket, "SO_BINDTODEVICE", None)
    if to_device is None:
        return  # only Linux can bind a listening socket to an interface
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            with socket.socket(fileno=os.dup(connection.fd)) as listener:
                try:
                    listener.setsockopt(socket.SOL_SOCKET, to_device, b"lo\0")
                except PermissionError:  # before Linux 5.7 only root may do this
                    print(
                        f"Port {connection.laddr.port} of TensorFlow can be reached from other "
                        "machines: have a firewall close it, or use Linux 5.7 or newer."
                    )


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
