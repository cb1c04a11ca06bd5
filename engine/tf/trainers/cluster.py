"""How the workers of one TensorFlow cluster find each other: on this machine, and nowhere else."""

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

THIS_MACHINE = "127.0.0.1"
JOB = "worker"
_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 20.0
"""After so long the log says which ranks are missing."""


@contextlib.contextmanager
def joined(rank: int, world_size: int) -> Iterator[None]:
    """While this lasts, `TF_CONFIG` is set and a port is kept for TensorFlow to open its server on.

    A `TF_CONFIG` of whoever else started this worker stands.

    Every rank keeps a free port and tells the others its number, in a file beside the rendezvous.
    The ranks wait for each other here, before TensorFlow starts, because TensorFlow's own waiting
    holds the interpreter: no thread and no signal gets through. How long is too long, the
    supervisor knows. Raises TrainingFailed when there is no cluster to join.
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
    with _kept_port() as port:
        own = _note(rendezvous, rank)
        write_atomically(own, str(port))
        addresses = [f"{THIS_MACHINE}:{port}" for port in _ports(rendezvous, world_size)]
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": {JOB: addresses}, "task": {"type": JOB, "index": rank}}
        )
        yield
        own.unlink()  # all have joined, so all have read it
    close_to_other_machines()


def part(rank: int, world_size: int) -> None:
    """Return once every rank is here.

    A rank whose last exchange is done may still be asked for its result: who left before all others
    have theirs would look like one that died. In somebody else's cluster there is no place to meet.
    """
    rendezvous = os.environ.get(environment.RENDEZVOUS)
    if rendezvous:
        write_atomically(_goodbye(rendezvous, rank), "")
        while not all(_goodbye(rendezvous, other).exists() for other in range(world_size)):
            time.sleep(_LOOK_SECONDS)


def close_to_other_machines() -> None:
    """Let the ports that this process listens on be reached from this machine only.

    TensorFlow's servers listen on every interface, let in anybody who knows the port, and cannot
    be told otherwise.
    """
    to_device = getattr(socket, "SO_BINDTODEVICE", None)
    if to_device is None:
        return  # only Linux can change that for a socket that listens already
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            with socket.socket(fileno=os.dup(connection.fd)) as listener:
                try:
                    listener.setsockopt(socket.SOL_SOCKET, to_device, b"lo\0")
                except PermissionError:  # Linux before 5.7 lets nobody but root do this
                    print(
                        f"Port {connection.laddr.port} of TensorFlow can be reached from other "
                        "machines: have a firewall close it, or use Linux 5.7 or newer."
                    )


@contextlib.contextmanager
def _kept_port() -> Iterator[int]:
    """A free port that nobody else gets meanwhile, while a server of this user may open it."""
    with socket.socket() as keeper:
        # Two sockets with this option may have one port as long as only one of them listens.
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((THIS_MACHINE, 0))
        port = int(keeper.getsockname()[1])
        if sys.platform != "linux":
            keeper.close()  # elsewhere the option means something else
        yield port


def _ports(rendezvous: str, world_size: int) -> list[int]:
    """The ports of all ranks, once all are known."""
    notes = [_note(rendezvous, rank) for rank in range(world_size)]
    complain_at = time.monotonic() + _PATIENCE_SECONDS
    while missing := [rank for rank, note in enumerate(notes) if not note.exists()]:
        if time.monotonic() > complain_at:
            complain_at = float("inf")
            print(f"Still waiting for ranks {', '.join(map(str, missing))} to start.", flush=True)
        time.sleep(_LOOK_SECONDS)
    return [int(note.read_text()) for note in notes]


def _note(rendezvous: str, rank: int) -> Path:
    return Path(f"{rendezvous}.rank{rank}")


def _goodbye(rendezvous: str, rank: int) -> Path:
    return Path(f"{rendezvous}.left{rank}")
