"""The result of one check."""

from __future__ import annotations

import msgspec


class Check(msgspec.Struct, frozen=True):
    """What was checked, and what came out."""

    check: str
    """Its name, such as `driver` or `PyTorch computes on GPU 0`."""

    ok: bool | None
    """None: it could not be checked, or does not matter here; the sentence says why."""

    sentence: str
    remedy: str = ""
    """What to do; empty if there is nothing to do."""
