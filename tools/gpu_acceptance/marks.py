"""Takes the time between two steps of a training, inside the process that trains."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from tools.gpu_acceptance.kit import MARKS, RESULT


@dataclass(frozen=True)
class _Mark:
    wall: float
    cpu: float
    event: torch.cuda.Event | None


class Marks:
    """Counts the losses of a training, and says how long a step took between two of them."""

    def __init__(self, first: int, last: int, file: Path | None = None) -> None:
        """`file` takes what was found, as soon as it is known. A step 0 never comes."""
        self._first, self._last, self._file = first, last, file
        self._calls = 0
        self._marks: list[_Mark] = []
        self.found: dict[str, float] = {}
        """Milliseconds of a step, by kind of time."""

    def note(self, loss: torch.Tensor) -> torch.Tensor:
        """Return `loss`, which the training has just computed."""
        self._calls += 1
        if self._calls in (self._first, self._last):
            self._marks.append(_mark(loss.is_cuda))
            if self._calls == self._last:
                self._find(*self._marks)
        return loss

    def _find(self, begin: _Mark, end: _Mark) -> None:
        steps = self._last - self._first
        gpu_ms = 1000 * (end.wall - begin.wall)
        if begin.event is not None and end.event is not None:
            torch.cuda.synchronize()
            gpu_ms = begin.event.elapsed_time(end.event)
        self.found = {
            "gpu_ms": gpu_ms / steps,
            "host_ms": 1000 * (end.wall - begin.wall) / steps,
            "main_thread_cpu_ms": 1000 * (end.cpu - begin.cpu) / steps,
        }
        if self._file is not None:
            self._file.write_text(json.dumps(self.found))


def asked_marks() -> Marks:
    """Return those that the environment asks for, in a worker of the product."""
    if MARKS not in os.environ:
        return Marks(0, 0)
    first, last = os.environ[MARKS].split(",")
    return Marks(int(first), int(last), Path(os.environ[RESULT]))


def _mark(on_gpu: bool) -> _Mark:
    event = None
    if on_gpu:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
    return _Mark(time.perf_counter(), time.thread_time(), event)
