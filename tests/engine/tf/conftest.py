"""Few processes with TensorFlow for all that small models can show."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.programs import found_by


@pytest.fixture(scope="session")
def small(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `small_trainers.py` found, by the name of its functions."""
    return _found(tmp_path_factory, "small_trainers")


@pytest.fixture(scope="session")
def compiled(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What these functions of `small_compiled.py` found."""
    return _found(tmp_path_factory, "small_compiled", "like_fit", "resumed_metrics")


@pytest.fixture(scope="session")
def loops(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What these functions of `small_compiled.py` found."""
    names = ("streams_of_data", "refused_streams", "callbacks_at_epochs", "refused_models")
    return _found(tmp_path_factory, "small_compiled", *names)


@pytest.fixture(scope="session")
def own_loops(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What these functions of `small_compiled.py` found."""
    return _found(tmp_path_factory, "small_compiled", "own_steps", "own_train_steps")


def _found(tmp_path_factory: pytest.TempPathFactory, name: str, *wanted: str) -> dict[str, Any]:
    file = tmp_path_factory.mktemp(name) / "found.json"
    module = f"tests.engine.tf.parallelism.{name}"
    found: dict[str, Any] = found_by("tensorflow", module, file, *wanted)
    return found
