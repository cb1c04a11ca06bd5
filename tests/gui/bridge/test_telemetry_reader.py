"""The sampling helper's owner, against helpers that the tests make up."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.bridge.telemetry_reader import TelemetryReader

pytestmark = pytest.mark.usefixtures("processes")

CPU = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="x")
SNAPSHOT = Snapshot(time=1000.0, devices=(CPU,))
LINE = msgspec.json.encode(SNAPSHOT).decode()

RESTART = 2.0
"""Seconds; Python needs less to start and to print a line, also on a busy machine."""


def helper(tmp_path: Path, body: str) -> tuple[str, str]:
    """Arguments for a Python helper that says one snapshot and then does `body`."""
    path = tmp_path / "helper.py"
    path.write_text(f"import sys\nprint('noise')\nprint({LINE!r}, flush=True)\n{body}\n")
    return ("-u", str(path))


def test_a_dead_helper_has_a_successor_that_hears_the_same(tmp_path: Path, qtbot: QtBot) -> None:
    gpu = DeviceSnapshot(
        id="GPU-1", kind="gpu", label="0", name="H100", index=0, pci_bus="00000000:01:00.0"
    )
    line = msgspec.json.encode(Snapshot(time=1.0, devices=(gpu, CPU))).decode()
    seen, heard = tmp_path / "seen", tmp_path / "heard"
    body = f"import sys; open({str(seen)!r}, 'a').write(repr(sys.argv[1:])); print({line!r}); "
    body += f"open({str(heard)!r}, 'a').write(sys.stdin.readline() + sys.stdin.readline())"
    reader = TelemetryReader(("-c", body), stale_after=0.05, restart_after=RESTART)
    reader.set_detail("GPU-a")
    reader.start()
    begin = time.monotonic()
    qtbot.waitUntil(lambda: heard.exists() and heard.read_text().count('{"detail":"GPU-a"}') >= 2)
    assert time.monotonic() - begin >= RESTART, "not at once"
    reader.stop()
    assert seen.read_text().startswith("[]['--known', ")
    assert "GPU-1" in seen.read_text()


def test_silence_is_said_with_the_time_of_the_last_word(tmp_path: Path, qtbot: QtBot) -> None:
    reader = TelemetryReader(helper(tmp_path, "sys.stdin.read()"), stale_after=0.3)
    with qtbot.waitSignal(reader.snapshot) as told:
        reader.start()
    assert told.args == [SNAPSHOT], "each line is one, and noise is none"
    with qtbot.waitSignal(reader.stale) as said:
        pass
    assert said.args == [1000.0]
    reader.stop()


def test_a_helper_that_hangs_is_ended_and_started_again(tmp_path: Path, qtbot: QtBot) -> None:
    hang = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    reader = TelemetryReader(helper(tmp_path, hang), stale_after=0.1, restart_after=RESTART)
    heard: list[object] = []
    reader.snapshot.connect(heard.append)
    reader.start()
    qtbot.waitUntil(lambda: len(heard) >= 2)
    reader.stop()


def test_the_helper_ends_with_the_window(tmp_path: Path, qtbot: QtBot) -> None:
    goodbye = tmp_path / "goodbye"
    body = f"sys.stdin.read()\nopen({str(goodbye)!r}, 'w').close()"
    reader = TelemetryReader(helper(tmp_path, body))
    with qtbot.waitSignal(reader.snapshot):
        reader.start()
    reader.stop()
    assert goodbye.exists()


ECHO = f"""
import json
said = json.loads({LINE!r})
for line in sys.stdin:
    said["gpu_note"] += line
    print(json.dumps(said), flush=True)
"""
"""A helper that answers each request with a snapshot whose note is all requests so far."""


def test_the_helper_hears_who_looks_and_at_which_gpu(tmp_path: Path, qtbot: QtBot) -> None:
    reader = TelemetryReader(helper(tmp_path, ECHO))
    notes: list[str] = []
    reader.snapshot.connect(lambda snapshot: notes.append(snapshot.gpu_note))
    reader.set_detail("GPU-a")  # nobody listens yet: it is said when somebody does
    reader.start()
    asked = '{"watching":true}\n{"detail":"GPU-a"}\n'
    qtbot.waitUntil(lambda: asked in notes)
    reader.set_watching(False)
    asked += '{"watching":false}\n{"detail":"GPU-a"}\n'
    qtbot.waitUntil(lambda: asked in notes)
    reader.set_detail("")
    asked += '{"watching":false}\n{"detail":""}\n'
    qtbot.waitUntil(lambda: asked in notes)
    reader.stop()


def test_figures_that_come_seldom_because_nobody_looks_are_not_old(
    tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gui.bridge.telemetry_reader.UNWATCHED_INTERVAL", 600.0)
    reader = TelemetryReader(helper(tmp_path, "sys.stdin.read()"), stale_after=0.2)
    reader.set_watching(False)
    with qtbot.waitSignal(reader.snapshot):
        reader.start()
    with qtbot.waitSignal(reader.stale, timeout=1000, raising=False) as said:
        pass
    assert not said.signal_triggered
    begin = time.monotonic()
    with qtbot.waitSignal(reader.stale):
        reader.set_watching(True)  # the helper is given its time for an answer
    assert time.monotonic() - begin >= 0.2
    reader.stop()
