"""The tests of GPUs run on a server that has neither a Qt nor pytest-qt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MISSING = ("PySide6", "pytestqt")


@pytest.mark.usefixtures("processes")
def test_the_tests_of_gpus_are_found_without_a_qt(tmp_path: Path) -> None:
    for name in MISSING:
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:pytest-qt", "-p", "no:cacheprovider"]
    command += ["-n", "0", "-m", "gpu", "--collect-only", "-q", "tests/engine/test_gpus.py"]
    found = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "test_it_trains_on_gpus_and_records_them[torch/ddp]" in found.stdout
