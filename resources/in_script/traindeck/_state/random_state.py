"""The random states of Python, NumPy and PyTorch: captured, restored, and exchanged for a while.

NumPy and PyTorch count only if the script has imported them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Plain = dict[str, Any]


def random_state() -> Plain:
    """Return the states of the process' generators, in values that a checkpoint can hold."""
    version, words, gauss = random.getstate()
    state: Plain = {"python": [version, list(words), gauss]}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = [name, keys.tolist(), int(position), int(has_gauss), float(cached)]
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: Plain) -> None:
    """Make the generators continue from `state`. What it does not hold stays as it is."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    if numpy is not None and "numpy" in state:
        name, keys, position, has_gauss, cached = state["numpy"]
        numpy.random.set_state((name, numpy.array(keys, "uint32"), position, has_gauss, cached))
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])


@contextmanager
def drawing_from(state: Plain) -> Iterator[None]:
    """Draw from `state` in this context; afterwards the process draws as if nothing had been."""
    own = random_state()
    set_random_state(state)
    try:
        yield
    finally:
        set_random_state(own)
