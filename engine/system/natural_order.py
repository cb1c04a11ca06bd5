"""The order in which people count: layer2 stands before layer10."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"([0-9]+)")


def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Return what names are sorted by."""
    return tuple(
        (len(part.lstrip("0")), part.lstrip("0")) if place % 2 else (0, part)
        for place, part in enumerate(_NUMBER.split(text))
    )
