"""The random states of Python, NumPy and PyTorch: captured, restored, and exchanged for a while.

NumPy and PyTorch count only if the script has imported them.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Plain = dict[str, Any]


class RandomState:
    """The states of all random generators of this process, as they were."""

    def __init__(self, python: Any, numpy: Any, torch: Any, cuda: Any) -> None:
        self._python = python
        self._numpy = numpy
        self._torch = torch
        self._cuda = cuda

    @classmethod
    def now(cls, *, devices: bool = False) -> RandomState:
        """Capture the states; with `devices`, also that of the GPU that this process uses."""
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        has_gpu = torch is not None and devices and torch.cuda.is_initialized()
        return cls(
            random.getstate(),
            None if numpy is None else numpy.random.get_state(),
            None if torch is None else torch.get_rng_state(),
            torch.cuda.get_rng_state() if torch is not None and has_gpu else None,
        )

    def restore(self) -> None:
        """Make all generators continue from here. What was not captured stays as it is."""
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        random.setstate(self._python)
        if numpy is not None and self._numpy is not None:
            numpy.random.set_state(self._numpy)
        if torch is not None and self._torch is not None:
            torch.set_rng_state(self._torch)
            if self._cuda is not None and torch.cuda.is_available():
                torch.cuda.set_rng_state(self._cuda)

    def plain(self) -> Plain:
        """Return it in values that a checkpoint can hold."""
        version, words, gauss = self._python
        state: Plain = {"python": [version, list(words), gauss]}
        if self._numpy is not None:
            name, keys, position, has_gauss, cached = self._numpy
            state["numpy"] = [name, keys.tolist(), int(position), int(has_gauss), float(cached)]
        if self._torch is not None:
            state["torch"] = self._torch
        if self._cuda is not None:
            state["cuda"] = self._cuda
        return state

    @classmethod
    def from_plain(cls, state: Plain) -> RandomState:
        """Return what `plain` described."""
        version, words, gauss = state["python"]
        numpy = None
        if "numpy" in state and sys.modules.get("numpy") is not None:
            name, keys, position, has_gauss, cached = state["numpy"]
            array = sys.modules["numpy"].array(keys, dtype="uint32")
            numpy = (name, array, position, has_gauss, cached)
        python = (version, tuple(words), gauss)
        return cls(python, numpy, state.get("torch"), state.get("cuda"))

    def seed(self, *words: int) -> int:
        """Return a number that follows from this state and `words`; nothing is drawn."""
        digest = zlib.crc32(repr(words).encode())
        digest = zlib.crc32(repr(self._python).encode(), digest)
        if self._torch is not None:
            digest = zlib.crc32(self._torch.numpy().tobytes(), digest)
        return digest


@contextmanager
def drawing_from(state: RandomState) -> Iterator[None]:
    """Draw from `state` in this context; afterwards the process draws as if nothing had been."""
    own = RandomState.now()
    state.restore()
    try:
        yield
    finally:
        own.restore()


class Stream:
    """Random numbers apart from the process' own: what draws from them can be repeated alone."""

    def __init__(self, state: RandomState) -> None:
        self._state = state

    @contextmanager
    def active(self) -> Iterator[None]:
        """Draw from this stream in the context."""
        own = RandomState.now()
        self._state.restore()
        try:
            yield
        finally:
            self._state = RandomState.now()
            own.restore()


def seed_all(seed: int) -> None:
    """Seed the generators of this process, such as a loader worker's."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if torch is not None:
        torch.manual_seed(seed)
