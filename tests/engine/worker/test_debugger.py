"""One rank on a terminal of its own, for pdb."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.processes.process import PROJECT
from engine.worker import environment
from engine.worker.debugger import use_terminal


def test_without_the_switch_no_rank_gets_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(environment.PDB, raising=False)
    before = sys.stdin, sys.stdout
    assert not use_terminal(0)
    assert (sys.stdin, sys.stdout) == before


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(os.name != "posix", reason="Windows has no terminals in the file system")
def test_pdb_of_one_rank_talks_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    developer, terminal = os.openpty()
    monkeypatch.setenv(environment.PDB, f"1:{os.ttyname(terminal)}")
    os.write(developer, b"p rank + 1\ncontinue\n")
    setup = "from engine.worker.debugger import use_terminal; use_terminal(0) or use_terminal(1)"
    command = [sys.executable, "-c", f"{setup}\nrank = 41\nbreakpoint()\nprint(rank)"]
    done = subprocess.run(command, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    output = b""
    while not output.endswith(b"(Pdb) 41\r\n"):
        output += os.read(developer, 4096)
    assert b"(Pdb) 42\r\n" in output
    os.close(terminal)
    os.close(developer)
