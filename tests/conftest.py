"""What every test gets: a data folder of its own, and a Qt that needs no screen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Several workers with several threads each wait for one another on a machine with two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def traindeck_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh `$TRAINDECK_HOME`, so that no test sees the user's runs or another test's."""
    home = tmp_path / "home"
    monkeypatch.setenv("TRAINDECK_HOME", str(home))
    return home
