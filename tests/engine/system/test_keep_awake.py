"""The machine is kept awake by a helper that ends with us."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.processes.process import PROJECT
from engine.system.keep_awake import SleepInhibitor
from tests.support.inhibitor import Inhibitor, only_linux

pytestmark = [pytest.mark.usefixtures("processes"), only_linux]


@pytest.fixture
def inhibitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inhibitor:
    return Inhibitor(tmp_path, monkeypatch)


def test_it_is_held_until_it_is_released(inhibitor: Inhibitor) -> None:
    wakefulness = SleepInhibitor("run 7 trains")
    wakefulness.keep(False)
    assert inhibitor.calls() == []
    wakefulness.keep(True)
    wakefulness.keep(True)
    pid = inhibitor.wait_for_call()
    [arguments] = inhibitor.calls()
    assert arguments == ("--what=sleep:idle --who=Traindeck --why=run 7 trains --mode=block cat")
    assert psutil.pid_exists(pid)
    wakefulness.keep(False)
    assert not psutil.pid_exists(pid)


def test_it_ends_with_a_process_that_is_killed(inhibitor: Inhibitor) -> None:
    source = (
        "import sys; from engine.system.keep_awake import SleepInhibitor; "
        "w = SleepInhibitor('x'); w.keep(True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, cwd=PROJECT
    ) as holder:
        helper = psutil.Process(inhibitor.wait_for_call())
        holder.kill()
    helper.wait(60)


def test_a_system_without_it_or_that_refuses_is_no_error(
    inhibitor: Inhibitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    inhibitor.refuse()
    refused = SleepInhibitor("x")
    refused.keep(True)
    pid = inhibitor.wait_for_call()
    deadline = time.monotonic() + 60.0
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline, "nobody took note of its end"
        time.sleep(0.01)
    refused.keep(False)
    monkeypatch.setenv("PATH", "")
    missing = SleepInhibitor("x")
    missing.keep(True)
    missing.keep(False)
