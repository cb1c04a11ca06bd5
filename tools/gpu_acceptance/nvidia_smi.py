"""What nvidia-smi says of the card, beside what the product says."""

from __future__ import annotations

import math
import subprocess
import threading
import time
from types import TracebackType
from typing import Self

from tools.gpu_acceptance.kit import Kit

SAMPLE_SECONDS = 0.5
"""Time between two questions of a Load."""

LOAD_FIELDS = ("utilization.gpu", "power.draw", "memory.used", "temperature.gpu", "clocks.sm")


def first_uuid() -> str:
    """Return the UUID of the first card; empty: there is none."""
    rows = ask("--query-gpu=uuid")
    return rows[0][0] if rows and rows[0][0].startswith("GPU-") else ""


def fields_of(kit: Kit, *fields: str) -> list[str]:
    """Return the fields of the card; empty without one."""
    if not kit.on_gpu:
        return []
    rows = ask(f"--query-gpu={','.join(fields)}", f"--id={kit.device}")
    return rows[0] if rows else []


def used_mib(kit: Kit, pid: int | None = None) -> float | None:
    """Return the MiB that are in use on the card, all or of one process; None: not known."""
    if pid is None:
        row = fields_of(kit, "memory.used")
        return _number(row[0]) if row else None
    if not kit.on_gpu:
        return None
    for row in ask("--query-compute-apps=pid,used_memory", f"--id={kit.device}"):
        if row[0] == str(pid):
            return _number(row[1])
    return 0.0


def ask(*options: str) -> list[list[str]]:
    """Return the rows of an answer; none where there is no nvidia-smi."""
    command = ["nvidia-smi", *options, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [[cell.strip() for cell in row.split(",")] for row in done.stdout.splitlines()]


class Load:
    """Asks for the load of the card in a thread, as long as a `with` lasts."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.rows: list[tuple[float, list[float]]] = []
        """Times and LOAD_FIELDS."""

        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join(5)

    def most(self, field: str) -> float:
        """Return the largest value of one of LOAD_FIELDS; 0: there was none."""
        place = LOAD_FIELDS.index(field)
        return max((row[place] for _, row in self.rows), default=0.0)

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            if row := fields_of(self._kit, *LOAD_FIELDS):
                numbers = [math.nan if (found := _number(cell)) is None else found for cell in row]
                self.rows.append((time.time(), numbers))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
