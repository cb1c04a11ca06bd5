"""A file server that is gone: accesses by name to a folder fail with an error of one's choice."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


class LostFiles:
    """The switch for the processes that the test starts; the test itself sees all files."""

    def __init__(self, folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """`folder` and what is below it can be lost; skip the test where that is not possible."""
        compiler, library = shutil.which("cc"), scratch / "lost_files.so"
        if os.name != "posix" or compiler is None:
            pytest.skip("a library that makes accesses fail needs a C compiler")
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a library that makes accesses fail can be built with glibc only")
        self._switch = scratch / "switch"
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("LOST_FOLDER", str(folder))
        monkeypatch.setenv("LOST_SWITCH", str(self._switch))

    def lose(self, error: int) -> None:
        """Let accesses fail with this number of errno."""
        written = self._switch.with_suffix(".new")
        written.write_text(str(error))
        written.replace(self._switch)

    def find(self) -> None:
        """Let accesses work again."""
        self._switch.unlink()
