"""What a machine of the cluster tells about itself, from a process that Ray starts there."""

from __future__ import annotations

import socket
import time

import msgspec

from engine.cluster.versions import Versions, own_versions
from engine.telemetry.given_gpus import GivenGpus, given_gpus
from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.snapshot import Snapshot

_REACH_SECONDS = 5.0


class MachineFacts(msgspec.Struct, frozen=True):
    """What a machine of the cluster tells about itself."""

    versions: Versions
    snapshot: Snapshot
    given: GivenGpus


def answer_facts() -> bytes:
    """Return the `MachineFacts` of the machine on which this task runs, as JSON."""
    snapshot = snapshot_once()
    return msgspec.json.encode(MachineFacts(own_versions(), snapshot, given_gpus(snapshot)))


def answer_time() -> float:
    """Return the time of the machine on which this task runs, in seconds since the epoch."""
    return time.time()


def answer_reach(host: str, port: int) -> str:
    """Return why the machine on which this task runs cannot connect to a port; empty: it can."""
    try:
        with socket.create_connection((host, port), timeout=_REACH_SECONDS):
            return ""
    except OSError as error:
        return error.strerror or str(error)
