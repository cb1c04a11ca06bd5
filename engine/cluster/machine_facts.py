"""What a machine of the cluster tells about itself, from a process that Ray starts there."""

from __future__ import annotations

import time

import msgspec

from engine.cluster.versions import Versions, own_versions
from engine.telemetry.given_gpus import given_gpus
from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.snapshot import Snapshot


class MachineFacts(msgspec.Struct, frozen=True):
    """What a machine of the cluster tells about itself."""

    versions: Versions
    snapshot: Snapshot
    given: tuple[str, ...]
    """UUIDs of the GPUs, or of their slices, that a run can use there."""


def answer_facts() -> bytes:
    """Return the `MachineFacts` of the machine on which this task runs, as JSON."""
    snapshot = snapshot_once()
    return msgspec.json.encode(
        MachineFacts(own_versions(), snapshot, tuple(given_gpus(snapshot).uuids))
    )


def answer_time() -> float:
    """Return the time of the machine on which this task runs, in seconds since the epoch."""
    return time.time()
