"""The way to Traindeck: everything goes through the watch that Traindeck puts into its runs."""

from __future__ import annotations

import sys
from typing import Any


def client() -> Any:
    """Return the watch's functions for the calls; None: this process is not watched."""
    if "traindeck_watch" not in sys.modules:
        return None
    from traindeck_watch import client as found

    return found if found.is_watched() else None
