"""The fingerprint of training data: their length, and what a few samples hold.

A replay compares it with that of its own data. Samples are chosen by the seed, so that it reads the
same ones; rank 0 reads them once, before the first step.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from engine.facts.run_facts import DataFacts

SAMPLES = 8
SECONDS = 0.5
"""After so long no further sample is read."""

_LARGEST = 16 * 2**20
"""Bytes of an array that count."""


def fingerprint(length: int, seed: int, read: Callable[[int], Any] | None = None) -> DataFacts:
    """Return what the data hold; `read` returns a sample, None: only the length counts.

    It raises nothing: what cannot be read now, the training cannot read either, and says so.
    """
    begun, found = time.monotonic(), dict[int, str]()
    problem = ""
    for index in chosen(length, seed):
        if read is None:
            break
        try:
            found[index] = _digest(read(index))
        except Exception as error:
            problem = f"Sample {index} cannot be read: {error}"
            break
        if time.monotonic() - begun > SECONDS:
            break
    return DataFacts(
        length=length, samples=found, seconds=time.monotonic() - begun, problem=problem
    )


def chosen(length: int, seed: int) -> list[int]:
    """Return the samples that are compared."""
    generator = np.random.default_rng([abs(seed), length])
    found: list[int] = generator.choice(length, min(SAMPLES, length), replace=False).tolist()
    return found


def draws_by_itself(dataset: Any) -> bool:
    """Whether a data set has a generator of its own, from which a sample more would draw."""
    try:
        return any(
            hasattr(value, "get_state") or type(value).__name__ in ("Generator", "Random")
            for value in vars(dataset).values()
        )
    except TypeError:
        return False


def _digest(sample: Any) -> str:
    found = hashlib.blake2b(digest_size=12)
    for part in _parts(sample):
        found.update(part)
    return found.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    """Yield what a sample holds; of an object that is no data, its type."""
    if isinstance(value, str | bytes | int | float | bool | None):
        yield repr(value).encode()
    elif hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        array = np.ascontiguousarray(value)
        yield f"{array.dtype} {array.shape}".encode()
        if array.dtype != object:
            yield array.reshape(-1).view(np.uint8)[:_LARGEST].tobytes()
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield repr(key).encode()
            yield from _parts(each)
    elif isinstance(value, list | tuple):
        yield str(len(value)).encode()
        for each in value:
            yield from _parts(each)
    else:
        yield type(value).__name__.encode()
