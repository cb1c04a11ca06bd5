"""What a forked TensorFlow worker sets that TensorFlow has read when it was imported."""

from __future__ import annotations

from collections.abc import Mapping


def set_up(environment: Mapping[str, str]) -> None:
    """Do nothing: TensorFlow reads its number of threads and its devices at its first operation."""
