"""Hides packages that a framework imports if they are installed, and that few recipes need."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def without_scikit_learn(recipe: Path) -> Iterator[None]:
    """Hide scikit-learn from imports inside the `with` block, which imports Keras.

    Keras has wrappers for scikit-learn, so it imports it with SciPy's statistics, which takes over
    a second. Hide nothing if the file `recipe` mentions `sklearn`: it may use the wrappers
    (`SKLearnClassifier`).
    """
    if "sklearn" in sys.modules or "sklearn" in recipe.read_text("utf-8", "replace").lower():
        yield
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["sklearn"]
