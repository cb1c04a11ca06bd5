"""What is said of driver, cards and limits; the facts come from the double of the driver."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.doctor.driver import driver_checks
from engine.doctor.examination import Examination
from engine.doctor.facts import DriverFacts, GpuFacts
from engine.doctor.finding import Finding
from engine.doctor.probing import ask
from tests.engine.telemetry.conftest import FIRST, SECOND, meet
from tests.support.drm_double import GIB, DrmDouble
from tests.support.fake_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    NEVER,
    NO_PERMISSION,
    NOT_SUPPORTED,
    FakeNvml,
)
from tests.support.sentences import sentence

OLD_DRIVER = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (x)\n"
    "GCC version:  gcc version 12.2.0\n"
)


def named(checks: list[Finding]) -> dict[str, Finding]:
    return {check.name: check for check in checks}


@pytest.fixture
def double(processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    folder = tmp_path / "nvml"
    folder.mkdir()
    fake = FakeNvml(folder)
    meet(fake, monkeypatch)
    return fake


def test_each_card_of_the_driver_has_a_line_also_a_lost_a_divided_and_a_withheld_one(
    double: FakeNvml,
) -> None:
    double.add_gpu(FIRST, pci_bus="00000000:3B:00.0")
    double.fail(double.add_gpu(SECOND, pci_bus="00000000:C1:00.0"), "*", GPU_IS_LOST)
    divided = double.add_gpu("GPU-3", pci_bus="00000000:C2:00.0")
    double.divide(divided, "1g.10gb", "2g.20gb")
    empty = double.add_gpu("GPU-4", pci_bus="00000000:C3:00.0")
    double.divide(empty, "1g.10gb", most=0)
    double.fail(double.add_gpu("GPU-5", pci_bus="00000000:C4:00.0"), "*", NO_PERMISSION)
    shared = double.add_gpu("GPU-6", pci_bus="00000000:C5:00.0")
    double.fail(shared, "nvmlDeviceGetMemoryInfo", NOT_SUPPORTED)
    examination = Examination()
    found = named(list(driver_checks(examination.driver, {})))
    assert found["GPU 5"].level == "ok"
    assert found["driver"].text == sentence("nvidia-driver-for-cuda-up")
    assert found["GPU 0"].level == "ok"
    assert f"sm_90), 80.0 GiB, {FIRST}" in found["GPU 0"].text
    assert found["GPU 1"].level == "error"
    assert "GPU is lost" in found["GPU 1"].text
    assert "Xid" in found["GPU 1"].advice
    assert found["GPU 2"].level == "ok"
    assert "divided by MIG (1g.10gb, 2g.20gb)" in found["GPU 2"].text
    assert found["GPU 3"].level == "error"
    assert "MIG is on without a slice" in found["GPU 3"].text
    assert found["GPU 4"].level == "unknown"
    assert "withholds it" in found["GPU 4"].text
    slices = [f"MIG-{divided}-{index}" for index in range(2)]
    assert examination.given.uuids == (FIRST, *slices, "GPU-6")


@pytest.mark.parametrize(
    ("code", "phrase"),
    [
        (LIB_RM_VERSION_MISMATCH, sentence("driver-was-replaced-in-use")),
        (NO_PERMISSION, "does not let this user"),
        (DRIVER_NOT_LOADED, sentence("no-nvidia-card-and-no-driver")),
    ],
)
def test_a_driver_that_refuses_says_why(double: FakeNvml, code: int, phrase: str) -> None:
    double.fail("system", "nvmlInit", code)
    check = driver_checks(Examination().driver, {})[0]
    assert phrase in check.text
    assert check.level == ("ok" if code == DRIVER_NOT_LOADED else "error")


def test_a_driver_that_hangs_ends_its_check_and_no_other(
    double: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.doctor.examination.DRIVER_SECONDS", 1.0)
    double.fail("system", "nvmlInit", NEVER)
    checks = named(list(Examination().quick()))
    assert checks["driver"].level == "error"
    assert "did not end within 1 s" in checks["driver"].text
    assert checks["PyTorch"].level != "error"


def facts(**changes: object) -> DriverFacts:
    return msgspec.structs.replace(DriverFacts(problem="NVMLError_LibraryNotFound"), **changes)


@pytest.mark.parametrize(
    ("changes", "level", "phrase"),
    [
        ({}, "ok", "this is a CPU machine"),
        ({"cards": ("0000:01:00.0",)}, "error", sentence("has-nvidia-card-pci")),
        ({"kernel_module": "570.86"}, "error", sentence("library-nvml-is-not-there")),
        ({"is_wsl": True}, "error", "Windows lends this system"),
        (
            {"problem": "NVMLError_DriverNotLoaded", "cards": ("0000:01:00.0",)},
            "error",
            sentence("is-installed-but-not-loaded"),
        ),
        ({"problem": "NVMLError_Unknown", "problem_text": "odd"}, "error", "does not answer: odd."),
        ({"problem": "", "driver": "580.1"}, "error", "finds no card"),
    ],
    ids=str,
)
def test_a_machine_without_a_working_driver(
    changes: dict[str, object], level: str, phrase: str
) -> None:
    [check] = driver_checks(facts(**changes), {})
    assert check.level == level
    assert phrase in check.text
    assert bool(check.advice) is (level != "ok")


def two_cards(*names: str) -> DriverFacts:
    gpus = [
        GpuFacts(index=index, uuid=f"GPU-{index}", name=name, capability=(9, 0))
        for index, name in enumerate(names)
    ]
    return DriverFacts(driver="580.1", gpus=tuple(gpus))


@pytest.mark.parametrize(
    ("environment", "level", "phrase"),
    [
        ({}, "ok", "Nothing limits"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1"}, "ok", "CUDA_VISIBLE_DEVICES=GPU-1 gives GPU 1;"),
        ({"CUDA_VISIBLE_DEVICES": "9"}, "error", sentence("gives-this-process-none-of-gpus")),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "error", sentence("cuda-numbers-them-otherwise")),
        ({"SLURM_JOB_GPUS": "1"}, "ok", "SLURM_JOB_GPUS=1 gives GPU 1;"),
    ],
    ids=str,
)
def test_the_limits_of_this_process_are_told(
    environment: dict[str, str], level: str, phrase: str
) -> None:
    check = named(driver_checks(two_cards("A", "B"), environment))["given GPUs"]
    assert (check.level, phrase in check.text) == (level, True), check


@pytest.mark.usefixtures("processes")
def test_the_kernel_is_asked_too(tmp_path: Path) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(OLD_DRIVER)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    for name, vendor, kind in (
        ("0000:01:00.0", "0x10de", "0x030200"),
        ("0000:01:00.1", "0x10de", "0x040300"),  # the sound of the card
        ("0000:02:00.0", "0x8086", "0x030000"),
    ):
        device = tmp_path / "sys/bus/pci/devices" / name
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    answer = ask("driver", str(tmp_path), seconds=30.0)
    found = msgspec.convert(answer.facts, DriverFacts)
    assert found.kernel_module == "570.86.15"
    assert found.cards == ("0000:01:00.0",)
    assert found.nodes == ("nvidiactl",)


@pytest.mark.usefixtures("processes")
def test_cards_of_other_makers_need_no_driver_of_nvidia(tmp_path: Path) -> None:
    """The probe reads what Linux says of them, in a process of its own."""
    machine = DrmDouble(tmp_path)
    machine.add_amd("0000:03:00.0", serial="8d2c0a4b5c6d7e8f")
    machine.add_intel("0000:04:00.0")
    answer = ask("driver", str(tmp_path), seconds=30.0)
    found = msgspec.convert(answer.facts, DriverFacts)
    assert [gpu.uuid for gpu in found.other_gpus] == ["GPU-8d2c0a4b5c6d7e8f", "GPU-intel0"]
    assert [gpu.memory for gpu in found.other_gpus] == [24 * GIB, 0]
    assert not found.is_rocm_refused
    without = msgspec.structs.replace(
        found, driver="", gpus=(), problem="NVMLError_LibraryNotFound", is_rocm_refused=True
    )
    said = named(driver_checks(without, {}))
    assert said["driver"].level == "ok"
    assert "AMD and Intel" in said["driver"].text
    assert said["ROCm"].level == "error"
    shown = [check for name, check in said.items() if name.startswith("GPU")]
    assert [check.level for check in shown] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("names", "variable", "value", "level"),
    [
        (("A", "A"), "ROCR_VISIBLE_DEVICES", "1", "ok"),
        (("A", "B"), "ROCR_VISIBLE_DEVICES", "1", "warning"),
        (("A", "B"), "ROCR_VISIBLE_DEVICES", "GPU-amd1", "ok"),
        (("A", "A"), "HIP_VISIBLE_DEVICES", "7", "error"),
    ],
)
def test_numbers_of_amd_cards_that_differ_may_be_others(
    names: tuple[str, ...], variable: str, value: str, level: str
) -> None:
    cards = [GpuFacts(index=n, uuid=f"GPU-amd{n}", name=name) for n, name in enumerate(names)]
    facts = DriverFacts(problem="NVMLError_LibraryNotFound", other_gpus=tuple(cards))
    environment = {variable: value, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    check = named(driver_checks(facts, environment))["given GPUs"]
    assert check.level == level
    assert level != "error" or f"unset {variable}" in check.advice
