"""One process with TensorFlow for all that small models can show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.programs import Program


@pytest.fixture(scope="session")
def small(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `small_trainers.py` found, by the name of its functions."""
    file = tmp_path_factory.mktemp("small") / "found.json"
    program = Program(
        "tensorflow",
        "tests.engine.tf.parallelism.small_trainers",
        str(file),
        log=file.with_suffix(".log"),
        variables={},
    )
    try:
        program.output()
    finally:
        program.kill()
    found: dict[str, Any] = json.loads(file.read_text())
    return found
