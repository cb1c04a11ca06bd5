"""What every test gets: a data folder of its own, and a Qt that needs no screen."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine import client

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Several workers with several threads each wait for one another on a machine with two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def garbage_waits() -> Iterator[None]:
    """Cyclic garbage is collected between two tests, as the window does it between two events: it
    may hold widgets, and a call into Qt that collects them can wait for its own lock."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def traindeck_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh `$TRAINDECK_HOME`, so that no test sees the user's runs or another test's.

    A run that a failed test leaves behind would take the processors from all tests after it.
    """
    home = tmp_path / "home"
    monkeypatch.setenv("TRAINDECK_HOME", str(home))
    yield home
    if not (home / "runs").is_dir():
        return
    monkeypatch.setenv("TRAINDECK_HOME", str(home))  # whatever the test made of it
    for info in client.runs():
        pid = info.status.supervisor_pid
        if not info.state.is_over and pid != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()  # its workers end with it
