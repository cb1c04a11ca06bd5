"""Output goes nowhere, or to an object of someone else, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.processes.process import PROJECT
from engine.system.streams import flush_output
from tests.support.sentences import sentence


class Refusing:
    def flush(self) -> None:
        raise RuntimeError("it cannot be flushed")


class Leaving:
    def flush(self) -> None:
        sys.exit(9)


@pytest.mark.parametrize(
    ("replacement", "said"),
    [
        (None, ""),
        (object(), sentence("could-not-be-flushed", error="AttributeError")),
        (Refusing(), sentence("could-not-be-flushed", error="RuntimeError")),
        (Leaving(), sentence("could-not-be-flushed", error="SystemExit")),
    ],
)
def test_what_cannot_be_flushed_is_named(
    replacement: object,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdout", replacement)
    flush_output()
    assert capfd.readouterr().err == said


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(os.name != "posix", reason="the shell closes the streams")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_the_null_device(closed: str) -> None:
    program = (
        "import gc, os, sys; from engine.system.streams import open_closed_streams; "
        "open_closed_streams(); print(1); print(2, file=sys.stderr); sys.stdin.read(); "
        "gc.collect(); "
        "[os.fstat(k) for k in range(3)]; os._exit(os.open('.', 0) < 3)"
    )
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program],
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0
