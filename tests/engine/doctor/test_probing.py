"""A probe ends with its time limit, with a Stop and with the process that asks."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.doctor import probe, probing
from engine.doctor.probing import ask
from engine.system.cancelled import Cancelled
from engine.telemetry.helper_client import ROOT
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of probes of this test, beside a copy of the program that runs them."""
    program = tmp_path / "probe.py"
    program.write_bytes(Path(probe.__file__).read_bytes())
    monkeypatch.setattr(probing, "PROBE", program)
    folder = tmp_path / "probes"
    folder.mkdir()
    return folder


def write(folder: Path, name: str, body: str) -> None:
    text = f"import os, signal, sys, time\n\ndef facts(arguments):\n    {body}\n"
    (folder / f"{name}.py").write_text(text)


def test_what_a_library_prints_is_no_fact(probes: Path) -> None:
    write(probes, "loud", "print('hello'); os.system('echo there'); return {'is': arguments}")
    assert ask("loud", "a", "b", seconds=30.0).facts == {"is": ["a", "b"]}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("raise ValueError('it broke')", "failed: ValueError: it broke"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("os._exit(3)", "failed: exit code 3"),
        ("os._exit(0)", sentence("ended-process-without-error")),
        (
            "os.write(2, b'some noise'); os._exit(0)",
            sentence("ended-process-without-error-it-said"),
        ),
    ],
)
def test_how_a_probe_ended_is_told(probes: Path, body: str, problem: str) -> None:
    write(probes, "bad", body)
    assert ask("bad", seconds=30.0) == (None, problem, False)


def test_a_probe_that_takes_too_long_is_ended_with_what_it_has_started(
    probes: Path, tmp_path: Path
) -> None:
    written = tmp_path / "pids"
    write(
        probes,
        "slow",
        "import subprocess; child = subprocess.Popen(['sleep', '60'], stdin=0); "
        f"open({str(written)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}'); time.sleep(60)",
    )
    answer = ask("slow", seconds=8.0)  # long enough for Python to start on a busy machine
    assert answer.is_late
    assert answer.problem == "did not end within 8 s"
    for pid in map(int, written.read_text().split()):
        wait_for_end(pid)


def test_a_stop_ends_a_probe(probes: Path) -> None:
    write(probes, "slow", "time.sleep(60)")
    with pytest.raises(Cancelled):
        ask("slow", seconds=60.0, is_cancelled=lambda: True)


def test_a_probe_does_not_outlive_the_process_that_asks(probes: Path, tmp_path: Path) -> None:
    written = tmp_path / "pid"
    body = f"open({str(written)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    write(probes, "slow", body)
    code = (
        "from pathlib import Path; from engine.doctor import probing; "
        f"probing.PROBE = Path({str(probing.PROBE)!r}); probing.ask('slow', seconds=60.0)"
    )
    asking = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    deadline = time.monotonic() + 60.0
    while not (written.exists() and written.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    asking.send_signal(signal.SIGKILL)
    asking.wait()
    wait_for_end(int(written.read_text()))


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 60.0
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.02)
