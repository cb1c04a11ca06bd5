"""Pictures of the window with a recorded run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtGui import QImage

from engine.events import EpochEnded, RunEnded

ROOT = Path(__file__).parent.parent.parent


def test_both_themes_in_both_sizes(record: Callable[..., Any], tmp_path: Path) -> None:
    run = record()
    run.begin()
    run.add_points("train/loss", range(1, 21))
    run.add(EpochEnded(2, 20, {"validation/accuracy": 0.9}), RunEnded("finished", "Done."))
    folder = tmp_path / "pictures"
    result = subprocess.run(
        [sys.executable, "main.py", "screenshots", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    sizes = {}
    for file in folder.iterdir():
        image = QImage(str(file))
        sizes[file.name] = (image.width(), image.height())
    assert sizes == {
        "dark-1280x800.png": (1280, 800),
        "dark-2560x1440.png": (2560, 1440),
        "light-1280x800.png": (1280, 800),
        "light-2560x1440.png": (2560, 1440),
    }
    dark, light = (QImage(str(folder / f"{theme}-1280x800.png")) for theme in ("dark", "light"))
    assert dark.pixelColor(5, 400).lightness() < 60 < 200 < light.pixelColor(5, 400).lightness()
