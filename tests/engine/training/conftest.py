"""What the tests of the loop share."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.training import pace
from tests.support.loop_doubles import Training


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    """Looks for commands after every batch, however fast a batch is."""
    monkeypatch.setattr(pace, "MOST_STEPS", 1)
    return Training(tmp_path)
