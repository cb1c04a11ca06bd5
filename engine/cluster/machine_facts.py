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


class HeadAnswer(msgspec.Struct, frozen=True):
    """What the head tells a new Ray node."""

    versions: Versions
    cannot_reach: str = ""
    """Why the head cannot connect to the new node, in a clause; empty: it can."""

    name: str = ""
    """What the head is called in the cluster."""


def answer_facts() -> bytes:
    """Return the `MachineFacts` of the machine on which this task runs, as JSON."""
    snapshot = snapshot_once()
    return msgspec.json.encode(MachineFacts(own_versions(), snapshot, given_gpus(snapshot)))


def answer_time() -> float:
    """Return the time of the machine on which this task runs, in seconds since the epoch."""
    return time.time()


def answer_new_node(host: str, port: int) -> bytes:
    """Return the `HeadAnswer` to a new Ray node that listens at a port, as JSON."""
    try:
        with socket.create_connection((host, port), timeout=_REACH_SECONDS):
            refusal = ""
    except OSError as error:
        refusal = error.strerror or str(error)
    return msgspec.json.encode(HeadAnswer(own_versions(), refusal))
