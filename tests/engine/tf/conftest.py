"""One process with TensorFlow for all that small models can show."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.programs import found_by


@pytest.fixture(scope="session")
def small(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `small_trainers.py` found, by the name of its functions."""
    file = tmp_path_factory.mktemp("small") / "found.json"
    module = "tests.engine.tf.parallelism.small_trainers"
    found: dict[str, Any] = found_by("tensorflow", module, file)
    return found
