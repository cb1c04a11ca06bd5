"""A double of the NVIDIA driver for the telemetry tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_nvml import FakeNvml
from tests.support.nvml_on_demand import NvmlOnDemand

FIRST = "GPU-11111111-1111-1111-1111-111111111111"
SECOND = "GPU-22222222-2222-2222-2222-222222222222"


def meet(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process that this test starts from now on finds this driver."""
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def fake_nvml(processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A driver without GPUs that every process started by this test meets.

    A missing C compiler is an error, not a skip: without it nothing here would be tested.
    """
    folder = tmp_path / "nvml"
    folder.mkdir()
    fake = FakeNvml(folder)
    meet(fake, monkeypatch)
    return fake


@pytest.fixture
def two_gpus(fake_nvml: FakeNvml) -> FakeNvml:
    """NVML lists the cards in the opposite of PCI order: `gpu0` is SECOND, `gpu1` is FIRST."""
    fake_nvml.add_gpu(SECOND, pci_bus="00000000:C1:00.0", name="NVIDIA GeForce RTX 4090")
    fake_nvml.add_gpu(FIRST, pci_bus="00000000:3B:00.0")
    return fake_nvml


@pytest.fixture
def pci_devices(tmp_path: Path) -> Path:
    """What the system says about cards: nothing, until a test writes it."""
    return tmp_path / "pci"


@pytest.fixture
def nvml(fake_nvml: FakeNvml, pci_devices: Path) -> Iterator[NvmlOnDemand]:
    """Samples the double's GPUs when the test says so."""
    with NvmlOnDemand(pci_devices) as helper:
        yield helper
