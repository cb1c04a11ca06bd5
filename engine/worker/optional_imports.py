"""Hides packages that a framework imports when they are installed, but hardly any recipe needs."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_MENTIONED = re.compile(r"sklearn", re.IGNORECASE)


@contextlib.contextmanager
def without_scikit_learn(recipe: Path) -> Iterator[None]:
    """Hide scikit-learn from imports inside the `with` block, which imports Keras.

    Keras has wrappers for scikit-learn, and so imports it and SciPy's statistics: that takes over a
    second. Nothing is hidden if the file `recipe` mentions `sklearn`, as it must to use the
    wrappers (`SKLearnClassifier`).
    """
    if "sklearn" in sys.modules or _MENTIONED.search(recipe.read_text("utf-8", "replace")):
        yield
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["sklearn"]
