"""Finds the objects of a type that a script has made."""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

_SWITCH_SECONDS = 0.5
"""Longer than a look at all objects takes."""


def objects_of(kind: Any) -> list[Any]:
    """Return all objects of this type, or of one that is derived from it. Any thread may call it.

    No other thread runs while the list of all objects exists: a tuple that it is filling would have
    one reference too many, and Python ends that with a SystemError in the script.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        time.sleep(2 * before)  # a thread that waits already interrupts this one after the old time
        return [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
    finally:
        sys.setswitchinterval(before)
