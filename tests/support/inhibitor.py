"""A `systemd-inhibit` that only records its calls."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="systemd is for Linux")

_SCRIPT = """#!/bin/sh
echo "$*" >> "{folder}/calls"
echo $$ > "{folder}/pid.tmp"
mv "{folder}/pid.tmp" "{folder}/pid"
[ -e "{folder}/refuse" ] && exit 1
exec cat
"""


class Inhibitor:
    """Comes before the real program on PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        bin = folder / "bin"
        bin.mkdir()
        script = bin / "systemd-inhibit"
        script.write_text(_SCRIPT.format(folder=folder))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")

    def calls(self) -> list[str]:
        """The arguments of every call so far."""
        file = self._folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def wait_for_call(self) -> int:
        """Wait for a call since the last use of this method; return the pid of the process."""
        file = self._folder / "pid"
        deadline = time.monotonic() + 60.0
        while not file.exists():
            assert time.monotonic() < deadline, "systemd-inhibit was not called"
            time.sleep(0.01)
        pid = int(file.read_text())
        file.unlink()
        return pid

    def refuse(self) -> None:
        """From now on every call fails, as if polkit had refused it."""
        (self._folder / "refuse").touch()
