"""Modules that take long to import: imported when something of them is used for the first time."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for a module. NumPy is a fifth of the start of a command, and few commands use it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found
