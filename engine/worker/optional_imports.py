"""Packages that a framework imports if they are there, although hardly any recipe needs that."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_MENTIONED = re.compile(r"sklearn", re.IGNORECASE)


@contextlib.contextmanager
def without_scikit_learn(recipe: Path) -> Iterator[None]:
    """While this lasts, scikit-learn is not there for Keras to import; later it is, for everybody.

    Keras has wrappers for it, and so imports it and SciPy's statistics: over a second. A recipe
    that speaks of `sklearn`, as who uses those wrappers (`SKLearnClassifier`) does, has it as ever.
    """
    if "sklearn" in sys.modules or _MENTIONED.search(recipe.read_text("utf-8", "replace")):
        yield
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["sklearn"]
