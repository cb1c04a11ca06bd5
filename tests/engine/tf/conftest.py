"""One process with TensorFlow for all that small models can show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parent.parent.parent.parent


@pytest.fixture(scope="session")
def small(processes: None) -> dict[str, Any]:
    """What `small_trainers.py` found, by the name of its functions."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.tf.parallelism.small_trainers"],
        cwd=PROJECT,
        env=os.environ
        | {
            "KERAS_BACKEND": "tensorflow",
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "PYTHONPATH": str(PROJECT),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found
