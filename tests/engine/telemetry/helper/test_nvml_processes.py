"""The processes on a GPU, its traffic, and the links between GPUs."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from engine.telemetry.snapshot import GpuProcess, Link
from tests.engine.telemetry.conftest import FIRST, SECOND
from tests.support.fake_nvml import (
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    NVLINK,
    UNKNOWN,
    FakeNvml,
)
from tests.support.nvml_on_demand import NvmlOnDemand

NOBODY = 2**22 + 1
"""More than any pid of Linux."""

MIB = 2**20


def test_processes_are_named_and_merged_by_pid(two_gpus: FakeNvml, nvml: NvmlOnDemand) -> None:
    me = psutil.Process()
    two_gpus.run(
        "gpu1",
        # Who uses two slices of a GPU is listed twice; who also draws stands in both lists.
        compute=[(os.getpid(), 300 * MIB), (NOBODY, None), (os.getpid(), 200 * MIB)],
        graphics=[(os.getpid(), 500 * MIB), (NOBODY + 1, 10 * MIB)],
    )
    rows = nvml.rows(0)
    assert rows[FIRST].processes == (
        GpuProcess(
            pid=me.pid,
            name=me.name(),
            user=me.username(),
            memory=500 * MIB,
            started=me.create_time(),
        ),
        GpuProcess(pid=NOBODY),
        GpuProcess(pid=NOBODY + 1, memory=10 * MIB),
    )
    assert rows[SECOND].processes == ()


def test_a_process_that_ends_leaves_its_number_only(two_gpus: FakeNvml, nvml: NvmlOnDemand) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    two_gpus.run("gpu1", compute=[(child.pid, 300 * MIB)])
    (seen,) = nvml.rows(0)[FIRST].processes or ()
    child.communicate()
    (gone,) = nvml.rows(5)[FIRST].processes or ()
    assert seen.name.startswith("python")
    assert gone == GpuProcess(pid=child.pid, memory=300 * MIB)


def test_a_card_that_only_computes_has_processes_all_the_same(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.run("gpu1", compute=[(NOBODY, MIB)])
    two_gpus.fail("gpu1", "nvmlDeviceGetGraphicsRunningProcesses_v3", NOT_SUPPORTED)
    row = nvml.rows(0)[FIRST]
    assert row.processes == (GpuProcess(pid=NOBODY, memory=MIB),)
    assert row.silent == {}


def test_a_missing_permission_is_reported(two_gpus: FakeNvml, nvml: NvmlOnDemand) -> None:
    two_gpus.fail("gpu1", "nvmlDeviceGetComputeRunningProcesses_v3", NO_PERMISSION)
    row = nvml.rows(0)[FIRST]
    assert (row.processes, row.silent) == (None, {"processes": "no permission"})


def test_the_list_of_a_driver_that_mixes_it_up_is_not_shown(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.run("gpu1", compute=[(NOBODY, MIB)])
    trust = {"535.54.03": False, "535.104.05": True, "525.147.05": True, "580.95.05": True}
    for look, (version, trusted) in enumerate(trust.items()):
        two_gpus.answer("system", "nvmlSystemGetDriverVersion", version)
        row = nvml.rows(look * 5)[FIRST]
        assert (row.processes is not None) is trusted
        assert ("535.104.05 or later" in row.silent.get("processes", "")) is not trusted


def test_links_are_asked_once_and_nvlink_goes_before_what_is_on_the_bus(
    fake_nvml: FakeNvml, nvml: NvmlOnDemand
) -> None:
    levels = {
        0: "PCIe switch",
        10: "PCIe switch",
        20: "PCIe switch",
        30: "host bridge",
        40: "NUMA node",
        50: "system",
        77: "unknown",
    }
    hub = fake_nvml.add_gpu("GPU-hub", pci_bus="00000000:01:00.0")
    for level in levels:
        other = fake_nvml.add_gpu(f"GPU-{level}", pci_bus=f"00000000:{level + 2:02X}:00.0")
        fake_nvml.link(hub, other, ancestor=level)
    bridged = fake_nvml.add_gpu("GPU-bridged", pci_bus="00000000:A0:00.0")
    fake_nvml.link(hub, bridged, ancestor=50, nvlink=True)
    silent = fake_nvml.add_gpu("GPU-silent", pci_bus="00000000:A1:00.0")
    fake_nvml.fail(hub, f"nvmlDeviceGetTopologyCommonAncestor:{silent}", NOT_SUPPORTED)
    for other in (silent, "gpu1"):
        fake_nvml.fail(hub, f"nvmlDeviceGetP2PStatus:{other}:{NVLINK}", UNKNOWN)
    links = nvml.sample(0).links
    kinds = {link.second: link.kind for link in links if link.first == "GPU-hub"}
    expected = {f"GPU-{level}": kind for level, kind in levels.items()}
    assert kinds == expected | {"GPU-bridged": "NVLink", "GPU-silent": "unknown"}
    assert len(links) == 10 * 9 / 2
    asked = fake_nvml.calls().count("gpu0 nvmlDeviceGetP2PStatus")
    assert nvml.sample(1).links == links
    assert fake_nvml.calls().count("gpu0 nvmlDeviceGetP2PStatus") == asked


def test_a_card_that_is_lost_among_the_questions_for_links_is_asked_for_them_when_it_is_back(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.fail("gpu1", "nvmlDeviceGetP2PStatus", GPU_IS_LOST)
    assert nvml.sample(0).links == ()
    two_gpus.fail("gpu1", "*", GPU_IS_LOST)
    assert nvml.rows(1)[FIRST].lost is not None
    two_gpus.answer("gpu1", "*")
    two_gpus.link("gpu0", "gpu1", ancestor=30)
    two_gpus.answer("gpu1", "nvmlDeviceGetP2PStatus", 5)
    assert nvml.sample(6).links == (Link(FIRST, SECOND, "host bridge"),)
