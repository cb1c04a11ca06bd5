"""The helper process, the single snapshot and the stream: how they start and end."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psutil
import pytest

from engine.telemetry import helper_client
from engine.telemetry.helper import requests
from engine.telemetry.helper_client import ARGUMENTS, ROOT, TelemetryStream, snapshot_once
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.engine.telemetry.conftest import FIRST
from tests.support.fake_nvml import NEVER, FakeNvml
from tests.support.sentences import sentence


@contextmanager
def helper(interval: float = 0.05) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, *ARGUMENTS, "--interval", str(interval)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("processes")
def test_the_helper_prints_a_snapshot_per_line_with_the_cpu_first() -> None:
    with helper() as process:
        assert process.stdout is not None
        first, second = (
            msgspec.json.decode(process.stdout.readline(), type=Snapshot) for _ in range(2)
        )
    cpu = second.devices[-1]
    assert (cpu.id, cpu.kind, cpu.label) == ("cpu", "cpu", "CPU")
    assert cpu.name
    assert cpu.memory_total is not None
    assert cpu.memory_used is not None
    assert 0 < cpu.memory_used < cpu.memory_total
    assert cpu.utilisation is not None
    assert 0 <= cpu.utilisation <= 100
    assert second.time > first.time


@pytest.mark.usefixtures("processes")
def test_the_helper_ends_when_its_input_ends() -> None:
    with helper() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.usefixtures("processes")
def test_the_helper_ends_quietly_when_its_output_is_closed() -> None:
    with helper() as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.usefixtures("processes")
def test_the_helper_ends_with_its_input_inside_a_call_that_never_returns(
    fake_nvml: FakeNvml,
) -> None:
    fake_nvml.fail(
        fake_nvml.add_gpu("GPU-1", pci_bus="00000000:01:00.0"), "nvmlDeviceGetUUID", NEVER
    )
    with helper() as process:
        assert process.stdin is not None
        while "gpu0 nvmlDeviceGetUUID" not in fake_nvml.calls():
            assert process.poll() is None
            time.sleep(0.01)
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.usefixtures("processes")
def test_what_the_reader_wishes_is_answered_at_once(two_gpus: FakeNvml) -> None:
    with helper(interval=600) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def after(*wishes: bytes) -> DeviceSnapshot:
            process.stdin.write(b"\n".join([*wishes, b""]))
            process.stdin.flush()
            line = process.stdout.readline()
            return msgspec.json.decode(line, type=Snapshot).devices[0]

        assert after().pcie_sent is None
        assert after(b'{"watching": true}').nvlink_sent is None
        two_gpus.traffic("gpu1", (0, 0), (0, 0))
        assert after(b'{"detail": "%s"}' % FIRST.encode()).pcie_sent == 488 * 1024
        row = after(b'{"watching": false}')
        assert (row.id, row.nvlink_sent) == (FIRST, 0.0)
        assert after(b'{"detail": ""}').nvlink_sent is None


def test_a_wish_that_is_none_is_spoken_of_and_the_next_one_heard(
    capfd: pytest.CaptureFixture[str],
) -> None:
    wishes = requests.Requests()
    wishes.follow([b"what?", b'{"watching": "maybe"}', b'{"detail": "GPU-1", "later": 1}'])
    assert wishes.detail == "GPU-1"
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(sentence("telemetry-helper-does-not-understand-b"))
    assert "watching" in second


@pytest.mark.parametrize(
    ("wish", "seconds"), [(b"{}", 1.0), (b'{"watching": false}', requests.UNWATCHED_INTERVAL)]
)
def test_without_a_viewer_there_are_fewer_snapshots(wish: bytes, seconds: float) -> None:
    wishes = requests.Requests()
    wishes.follow([wish])
    assert wishes.pause(1.0) == seconds
    assert wishes.pause(60.0) == 60.0


@pytest.mark.usefixtures("processes")
def test_a_driver_that_never_answers_costs_a_probe_its_timeout_only(fake_nvml: FakeNvml) -> None:
    fake_nvml.fail("system", "nvmlDeviceGetCount", NEVER)
    begin = time.monotonic()
    snapshot = snapshot_once(timeout=1.0)
    assert time.monotonic() - begin < 120, "it never answers"
    assert snapshot.gpu_note == sentence("nvidia-driver-does-not-answer-asked")
    assert [row.id for row in snapshot.devices] == ["cpu"]


def new_child(before: list[psutil.Process]) -> psutil.Process:
    """The only child of this process that is not among `before`, such as the templates."""
    (child,) = [child for child in psutil.Process().children() if child not in before]
    return child


@pytest.mark.usefixtures("processes")
def test_the_stream_hands_on_snapshots_and_ends_its_helper() -> None:
    before = psutil.Process().children()
    arrived: queue.Queue[Snapshot] = queue.Queue()
    live = TelemetryStream(arrived.put, interval=0.05)
    first, second = arrived.get(timeout=60), arrived.get(timeout=60)
    child = new_child(before)
    live.close()
    live.close()
    assert second.time > first.time
    assert not child.is_running()


@pytest.mark.usefixtures("processes")
def test_a_helper_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_client, "RESTART_PAUSE", 0.0)
    before = psutil.Process().children()
    arrived: queue.Queue[Snapshot] = queue.Queue()
    live = TelemetryStream(arrived.put, interval=60.0)  # each helper prints once
    try:
        arrived.get(timeout=60)
        new_child(before).kill()
        arrived.get(timeout=60)
    finally:
        live.close()


@pytest.mark.usefixtures("processes")
def test_the_stream_measures_the_traffic_of_a_card_also_after_its_helper_has_died(
    two_gpus: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper_client, "RESTART_PAUSE", 0.0)
    two_gpus.traffic("gpu1", (0, 0), (0, 0))
    before = psutil.Process().children()
    arrived: queue.Queue[Snapshot] = queue.Queue()
    live = TelemetryStream(arrived.put, interval=0.05)

    def until(is_measured: bool, after: float = 0.0) -> None:
        """Wait for a snapshot that was taken after the time `after`."""
        while True:
            snapshot = arrived.get(timeout=60)
            is_found = (snapshot.devices[0].pcie_sent is not None) == is_measured
            if is_found and snapshot.time > after:
                return

    try:
        until(False)
        live.set_detail(FIRST)
        until(True)
        child = new_child(before)
        child.kill()
        psutil.wait_procs([child], timeout=60)
        until(True, after=time.time())
        live.set_detail("")
        until(False)
    finally:
        live.close()


@pytest.mark.usefixtures("processes")
def test_a_new_helper_keeps_the_number_of_a_card_that_is_lost_at_its_start(
    fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver counts two cards, and numbers the second of them anew."""
    monkeypatch.setattr(helper_client, "RESTART_PAUSE", 0.0)
    uuids = ["GPU-1", "GPU-2", "GPU-3"]
    for number, uuid in enumerate(uuids, 1):
        fake_nvml.add_gpu(uuid, pci_bus=f"00000000:0{number}:00.0")
    before = psutil.Process().children()
    arrived: queue.Queue[Snapshot] = queue.Queue()
    live = TelemetryStream(arrived.put, interval=60.0)  # each helper prints once
    try:
        first = arrived.get(timeout=60)
        fake_nvml.answer("gpu1", "nvmlDeviceGetUUID", "GPU-3")
        fake_nvml.answer("gpu1", "nvmlDeviceGetPciInfo_v3", "00000000:03:00.0")
        fake_nvml.answer("system", "nvmlDeviceGetCount", 2)
        new_child(before).kill()
        second = arrived.get(timeout=60)
    finally:
        live.close()
    for snapshot in (first, second):
        gpus = [(row.id, row.index) for row in snapshot.devices if row.kind == "gpu"]
        assert gpus == [("GPU-1", 0), ("GPU-2", 1), ("GPU-3", 2)]
    assert [row.lost for row in second.devices if row.lost] == [
        sentence("nvidia-driver-lists-it-no-more")
    ]


@pytest.mark.usefixtures("processes")
def test_reading_snapshots_loads_neither_psutil_nor_pynvml() -> None:
    program = (
        "import sys, engine.telemetry.helper_client\n"
        "assert not {'psutil', 'pynvml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
