"""The made-up machine with eight GPUs of the screenshots, at a fixed time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.telemetry.memory_attribution import Worker
from engine.telemetry.snapshot import GpuProcess, Snapshot
from tools.screenshots import fake_machine
from tools.screenshots.fake_machine import (
    ASLEEP,
    BUSY,
    GIB,
    HOT,
    IDLE,
    LOST,
    MIG,
    OTHERS,
    SILENT,
    cpu,
    gpu,
    uuid,
)

__all__ = [
    "ASLEEP",
    "BUSY",
    "GIB",
    "HOT",
    "IDLE",
    "LOST",
    "MIG",
    "OTHERS",
    "RUN",
    "SILENT",
    "TIME",
    "cpu",
    "eight_gpus",
    "gpu",
    "last_minutes",
    "process",
    "uuid",
    "workers",
]

TIME = 1_780_000_000.0
"""When the newest snapshot is taken (seconds since the epoch)."""

RUN = "resnet18 · ddp × 2 · #42"


def process(pid: int, memory: float | None, **known: Any) -> GpuProcess:
    """A process with `memory` GiB on its GPU, started an hour before TIME."""
    return fake_machine.process(pid, memory, **({"started": TIME - 3600} | known))


def eight_gpus(time: float = TIME) -> Snapshot:
    """Return all GPUs at `time`; the utilisation changes with it."""
    return fake_machine.eight_gpus(time, TIME - 3600)


def workers() -> list[Worker]:
    """Return the workers of a run on the first two GPUs."""
    start_event_time = TIME - 3599
    return [
        Worker(RUN, 0, 7001, start_event_time, (BUSY,), 41.0 * GIB, 58.5 * GIB),
        Worker(RUN, 1, 7002, start_event_time, (HOT,), 66.0 * GIB, 74.7 * GIB),
    ]


def last_minutes(seconds: int = 120) -> Iterator[Snapshot]:
    """Yield a snapshot for each second up to TIME."""
    for age in reversed(range(seconds)):
        yield eight_gpus(TIME - age)
