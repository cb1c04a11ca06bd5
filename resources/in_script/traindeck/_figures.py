"""Figures, pictures and histograms that the script logs, and the names of their series."""

from __future__ import annotations

import math
from typing import Any

_VALIDATION = ("validation_", "valid_", "val_", "eval_")
_TEST = "test_"
_OWN_NAMES = {"lr": "learning_rate"}


class Figures:
    """What is logged; nothing happens outside of Traindeck."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._of_epoch: dict[str, Any] = {}
        self.validation: dict[str, float] = {}
        """The newest results of a validation, by series."""

    def log(self, figures: dict[str, Any], step: int | None) -> None:
        """Log numbers, or tensors and arrays with one element, which stay on their device."""
        if self._client is None:
            return
        for name, value in figures.items():
            series = series_of(name)
            self._client.log(series, value, _whole(step))
            if series.startswith("validation/"):
                self._of_epoch[series] = value

    def image(self, name: str, image: Any, step: int | None, caption: str) -> None:
        """Log a picture."""
        if self._client is not None:
            self._client.image(name, image, _whole(step), caption)

    def histogram(self, name: str, values: Any, step: int | None) -> None:
        """Log how values are distributed."""
        if self._client is not None:
            self._client.histogram(name, values, _whole(step))

    def summary(self, figures: dict[str, Any]) -> None:
        """Log figures of the whole run; the newest value counts."""
        if self._client is not None:
            for name, value in figures.items():
                self._client.log(f"summary/{name}", value)

    def end_epoch(self) -> dict[str, float]:
        """Return the results of the epoch's validation as numbers, and begin another epoch."""
        found = {series: _number(value) for series, value in self._of_epoch.items()}
        self._of_epoch = {}
        if found:
            self.validation = {s: v for s, v in found.items() if math.isfinite(v)}
        return found


def series_of(name: str) -> str:
    """Return the series of a logged name: `loss` is `train/loss`, `val_loss` `validation/loss`.

    A name with a slash is kept as it is.
    """
    if "/" in name:
        return name
    for prefix in _VALIDATION:
        if name.startswith(prefix):
            return "validation/" + name[len(prefix) :]
    if name.startswith(_TEST):
        return "test/" + name[len(_TEST) :]
    return "train/" + _OWN_NAMES.get(name, name)


def _whole(step: Any) -> int | None:
    """Return the step that the script says; None: that of the run."""
    return None if step is None else int(step)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
