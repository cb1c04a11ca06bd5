"""Measures the time of work on a device, without waiting for the device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from engine.pytorch.devices import gpu_module, is_gpu


class Stopwatch:
    """Sums the time of all measured contexts: by the clock on a CPU, by its own events on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._gpu = gpu_module(device) if is_gpu(device) else None
        self._seconds = 0.0
        self._events: list[tuple[Any, Any]] = []

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure the work of this context, also if the GPU does it later."""
        if self._gpu:
            begin, end = (self._gpu.Event(enable_timing=True) for _ in range(2))
            begin.record()
            yield
            end.record()
            self._events.append((begin, end))
        else:
            started = time.perf_counter()
            yield
            self._seconds += time.perf_counter() - started

    def read_and_reset(self) -> float:
        """Return the measured seconds since the last call, without unfinished work of a GPU."""
        seconds, self._seconds = self._seconds, 0.0
        waiting = []
        for begin, end in self._events:
            if end.query():
                seconds += begin.elapsed_time(end) / 1000
            else:
                waiting.append((begin, end))
        self._events = waiting
        return seconds
