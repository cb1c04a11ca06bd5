"""The digits; counts, in the worker itself, where the host waits for the GPU in some steps.

In the steps of WARNED each wait warns, with its Python stack; those of PROFILED are profiled for
the calls of the CUDA runtime.
"""

import json
import os
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from engine.recipes import digits
from tools.gpu_acceptance.kit import RESULT

WARNED, PROFILED = (30, 70), (80, 120)

OWN_FRAMES = ("/warnings.py", "/recipes/waits.py", "user_recipe")
"""Files of frames that say nothing: this one, also under its name in a run."""

Pair = tuple[np.ndarray, np.ndarray]


class Counts:
    """What was counted so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.places: Counter[str] = Counter()
        self.found: dict[str, Any] = {}
        self.profiler: torch.profiler.profile | None = None

    def step(self) -> None:
        """Begin or end to count; called by the loss of each training step."""
        self.calls += 1
        if self.calls == WARNED[0]:
            warnings.simplefilter("always")
            warnings.showwarning = self._note
            torch.cuda.set_sync_debug_mode("warn")
        elif self.calls == WARNED[1]:
            torch.cuda.set_sync_debug_mode("default")
            self.found["waits"] = dict(self.places)
        elif self.calls == PROFILED[0]:
            kinds = torch.profiler.ProfilerActivity
            self.profiler = torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA])
            self.profiler.start()
        elif self.calls == PROFILED[1] and self.profiler is not None:
            self.profiler.stop()
            events = self.profiler.events() or ()  # type: ignore[no-untyped-call]
            names = [event.name for event in events]
            for key, start in (("runtime", "cuda"), ("copies", "Memcpy")):
                self.found[key] = Counter(name for name in names if name.startswith(start))
            Path(os.environ[RESULT]).write_text(json.dumps(self.found))

    def _note(self, message: Warning | str, *_: object, **__: object) -> None:
        if "synchroniz" in str(message):
            self.places[_place()] += 1


counts = Counts()


def model(dropout: float = 0.1) -> nn.Module:
    """That of the digits."""
    return digits.model(dropout=dropout)


def datasets() -> tuple[Pair, Pair]:
    """The digits."""
    return digits.datasets()


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy."""
    if outputs.is_cuda and torch.is_grad_enabled():
        counts.step()
    return nn.functional.cross_entropy(outputs, targets)


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """Those of the digits."""
    return digits.metrics(outputs, targets)


def _place() -> str:
    """Return the innermost function of the engine, and what it called, as `tests/ghost` does."""
    called = ""
    for frame in reversed(traceback.extract_stack()):
        if any(part in frame.filename for part in OWN_FRAMES):
            continue
        if "/engine/" in frame.filename:
            own = f"{frame.filename.split('/engine/')[-1]} {frame.name}"
            return f"{own} > {called}" if called else own
        called = called or f"{'/'.join(frame.filename.split('/')[-2:])} {frame.name}"
    return called
