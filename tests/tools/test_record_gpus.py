"""A machine is recorded in a file, and replayed without it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.snapshot import Snapshot
from tests.engine.telemetry.conftest import meet
from tests.support.fake_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RECORDED_H100,
    FakeNvml,
)
from tests.support.sentences import sentence
from tools.record_gpus import Recording, record_gpus

pytestmark = pytest.mark.usefixtures("processes")

Record = Callable[[Path], str]

MIB = 2**20


@pytest.fixture
def record(capsys: pytest.CaptureFixture[str]) -> Record:
    """Record this machine in a file; the sentence that was printed."""

    def recorded(file: Path) -> str:
        assert record_gpus(file) == 0, capsys.readouterr().err
        return capsys.readouterr().out.strip()

    return recorded


def gpus(snapshot: Snapshot) -> object:
    """What must be equal: all but the times and the CPU."""
    rows = [msgspec.structs.replace(row, lost_since=None) for row in snapshot.devices[:-1]]
    return rows, snapshot.gpu_note, snapshot.links


@pytest.mark.parametrize("old_driver", [False, True])
def test_a_recorded_machine_gives_the_same_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Record, old_driver: bool
) -> None:
    folders = [tmp_path / "real", tmp_path / "replayed"]
    for folder in folders:
        folder.mkdir()
    real = FakeNvml(folders[0], old_driver=old_driver)
    cards = [real.add_gpu(f"GPU-{n}", pci_bus=f"00000000:{9 - n:02X}:00.0") for n in range(4)]
    real.run(cards[0], [(os.getpid(), 5 << 30), (2**22 + 1, None)])
    real.fail(cards[0], "nvmlDeviceGetFanSpeed", NOT_SUPPORTED)
    real.fail(cards[0], "nvmlDeviceGetTotalEccErrors:1:0", NO_PERMISSION)
    real.divide(cards[1], "3g.40gb", "1g.10gb")
    real.fail(cards[2], "nvmlDeviceGetPowerUsage", GPU_IS_LOST)
    real.link(cards[0], cards[1], nvlink=True)
    meet(real, monkeypatch)
    file = tmp_path / "machine.json"
    printed = record(file)
    expected = snapshot_once()
    assert printed.startswith(sentence("gpus-were-recorded", file=file))

    replayed = FakeNvml(folders[1])
    replayed.replay(file)
    meet(replayed, monkeypatch)
    assert gpus(snapshot_once()) == gpus(expected)


def test_the_answers_of_a_real_card_mean_what_nvidia_smi_said_beside_them(
    fake_nvml: FakeNvml,
) -> None:
    fake_nvml.replay(RECORDED_H100)
    snapshot = snapshot_once()
    card, _ = snapshot.devices
    assert (card.name, card.pci_bus) == ("NVIDIA H100 80GB HBM3", "00000000:00:06.0")
    assert card.memory_total // MIB == 81_559
    assert (card.memory_used, card.memory_reserved, card.memory_free) == (
        0,
        480 * MIB,
        81_079 * MIB,
    )
    assert (card.temperature, card.power, card.power_limit) == (44.0, 76.66, 700.0)
    assert card.temperature_slowdown == 89.0  # nvidia-smi: 43 degrees to 87, and two beyond it
    assert (card.clock, card.memory_clock) == (345.0, 2619.0)
    assert (card.performance_state, card.throttle_reasons) == (0, ())
    assert (card.ecc_corrected, card.ecc_uncorrected) == (0, 0)
    assert card.silent == {"fan": "not supported"}
    assert (card.processes, card.slices, card.lost) == ((), (), None)


def test_a_recording_names_no_program_and_no_user(
    two_gpus: FakeNvml, tmp_path: Path, record: Record
) -> None:
    name = "a-secret-name"
    secret = [sys.executable, "-c", "input()", name]
    with subprocess.Popen(secret, stdin=subprocess.PIPE) as process:
        two_gpus.run("gpu1", [(process.pid, 5 << 30)])
        file = tmp_path / "machine.json"
        record(file)
        process.communicate()
    text = file.read_text()
    assert str(process.pid) in text
    for private in (name, "python", psutil.Process().username()):
        assert private not in text
    whos = {answer.who for answer in msgspec.json.decode(text, type=Recording).answers}
    assert whos == {"system", "gpu0", "gpu1"}


def test_a_machine_without_a_driver_is_a_recording_too(
    fake_nvml: FakeNvml, tmp_path: Path, record: Record
) -> None:
    fake_nvml.fail("system", "nvmlInit", DRIVER_NOT_LOADED)
    printed = record(tmp_path / "machine.json")
    assert printed.startswith(sentence("driver-is-not-loaded-the-answers"))
    expected = snapshot_once()
    fake_nvml.answer("system", "nvmlInit")
    fake_nvml.replay(tmp_path / "machine.json")
    assert gpus(snapshot_once()) == gpus(expected)


def test_a_file_that_cannot_be_written_is_an_error_in_words(
    fake_nvml: FakeNvml, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record_gpus(tmp_path / "nowhere" / "machine.json") == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(sentence("recording-cannot-be-written"))
    assert "Traceback" not in printed.err
    assert printed.out == ""
