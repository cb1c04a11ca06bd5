"""Finds the objects of a type that a script has made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain, compress, islice
from typing import Any


def objects_of(kind: type) -> list[Any]:
    """Return all objects of this type, or of one that is derived from it. Any thread may call it.

    No other thread runs while the list of all objects exists: a tuple that it is filling would have
    one reference too many, and Python ends that with a SystemError in the script. So the list is
    filled, looked through and emptied within one call of C code, where Python changes no thread.
    """
    identity = object.__hash__  # of the address; `id` would call the audit hooks of the script
    wanted = frozenset(map(identity, _with_derived(kind)))
    everything: list[Any] = []
    fill = map(everything.extend, islice(iter(gc.get_objects, None), 1))
    found = compress(everything, map(wanted.__contains__, map(identity, map(type, everything))))
    empty: Iterator[Any] = iter(everything.clear, None)
    collects = gc.isenabled()
    gc.disable()  # a collection runs finalizers, which are Python code
    try:
        return list(chain(filter(None, fill), found, empty))
    finally:
        if collects:
            gc.enable()


def _with_derived(kind: type) -> set[type]:
    derived = {kind}
    waiting = [kind]
    while waiting:
        fresh: set[type] = set(type.__subclasses__(waiting.pop())) - derived
        derived |= fresh
        waiting.extend(fresh)
    return derived
