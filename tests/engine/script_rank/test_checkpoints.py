"""A script's checkpoint that is being published shows all processes that it gets on."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine.messages.channel import Alive
from engine.runs import checkpoint_files
from engine.script_rank.checkpoints import Checkpoints


def test_what_is_read_again_for_its_checksum_is_progress_for_all(tmp_path: Path) -> None:
    folder = checkpoint_files.begin(tmp_path, 3)
    os.utime(folder, (1.0, 1.0))
    before = checkpoint_files.save_progress(tmp_path)
    publishing: Any = SimpleNamespace(_session=SimpleNamespace(folder=tmp_path, alive=Alive()))
    Checkpoints._count(publishing, 3, 1000)
    assert publishing._session.alive == Alive("checkpoint", 1000)
    assert checkpoint_files.save_progress(tmp_path) > before
