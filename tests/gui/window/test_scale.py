"""Crisp at 150 %: pictures are made for the pixels of the screen, and no text is cut off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.system import paths

ROOT = Path(__file__).parents[3]


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
def test_everything_is_crisp_and_whole_at_one_and_a_half(traindeck_home: Path) -> None:
    environment = os.environ | {
        "QT_SCALE_FACTOR": "1.5",
        "QT_QPA_PLATFORM": "offscreen",
        paths.HOME_VARIABLE: str(traindeck_home),
    }
    result = subprocess.run(
        [sys.executable, "-m", "tests.gui.window.scale_check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == ["1.5", ""]
