"""Tests `engine.planning.end_runs`: a supervisor that does not end is killed, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from engine.planning import end_runs
from engine.processes import process_tree

pytestmark = pytest.mark.usefixtures("processes")

STUBBORN = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["cat"], start_new_session=True)
time.sleep(1000)
"""


def test_the_template_of_a_supervisor_that_does_not_end_lives_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers of other runs are below it."""
    monkeypatch.setattr(end_runs, "END_SECONDS", 0.0)
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as supervisor:

        def answer() -> bytes:
            assert supervisor.stdin is not None
            assert supervisor.stdout is not None
            supervisor.stdin.write(b"lives\n")
            supervisor.stdin.flush()
            return supervisor.stdout.readline()

        assert answer() == b"lives\n", "what the supervisor has started answers"
        end_runs._end([(supervisor.pid, process_tree.stat(supervisor.pid).created)])
        assert supervisor.wait() == -signal.SIGKILL
        assert answer() == b"lives\n"
