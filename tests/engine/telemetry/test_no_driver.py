"""Without a driver, or when it crashes, the snapshot has no GPUs and a note with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.telemetry.helper.drm_cards import ROOT
from engine.telemetry.helper_client import gpu_uuids, snapshot_once
from tests.engine.telemetry.conftest import FIRST, SECOND
from tests.support.drm_double import DrmDouble
from tests.support.fake_nvml import (
    CRASH,
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    NO_PERMISSION,
    UNKNOWN,
    FakeNvml,
)
from tests.support.fake_nvml.library import LIBRARY, build_library
from tests.support.nvml_on_demand import NvmlOnDemand
from tests.support.sentences import sentence


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("code", "note"),
    [
        (DRIVER_NOT_LOADED, sentence("nvidia-driver-is-installed-but-it-is-not-loaded")),
        (
            LIB_RM_VERSION_MISMATCH,
            sentence("nvidia-driver-was-replaced-in-use"),
        ),
        (NO_PERMISSION, sentence("nvidia-driver-refuses-this-user")),
        (UNKNOWN, sentence("nvidia-driver-does-not-answer-unknown")),
    ],
)
def test_a_driver_that_cannot_start_leaves_the_cpu_and_a_sentence(
    fake_nvml: FakeNvml, code: int, note: str
) -> None:
    fake_nvml.fail("system", "nvmlInit", code)
    snapshot = snapshot_once()
    assert [row.id for row in snapshot.devices] == ["cpu"]
    assert snapshot.gpu_note == note


@pytest.mark.usefixtures("processes")
def test_a_driver_that_appears_is_found_within_30_s(two_gpus: FakeNvml, nvml: NvmlOnDemand) -> None:
    two_gpus.fail("system", "nvmlInit", DRIVER_NOT_LOADED)
    assert nvml.sample(0).devices == ()
    two_gpus.answer("system", "nvmlInit")
    assert nvml.sample(29).devices == ()
    assert [row.lost for row in nvml.rows(30).values()] == [None, None]
    assert set(nvml.rows(31)) == {FIRST, SECOND}


@pytest.mark.usefixtures("processes")
def test_a_driver_without_cards_says_so(fake_nvml: FakeNvml) -> None:
    assert snapshot_once().gpu_note == sentence("nvidia-driver-finds-no-gpu")


@pytest.mark.usefixtures("processes")
def test_without_the_library_there_is_the_cpu_and_a_sentence(
    fake_nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands in the way of every real library, also on a machine that has a driver.
    (tmp_path / LIBRARY).write_bytes(b"not a library" * 100)
    folders = f"{tmp_path}{os.pathsep}{fake_nvml.environment['LD_LIBRARY_PATH']}"
    monkeypatch.setenv("LD_LIBRARY_PATH", folders)
    snapshot = snapshot_once()
    assert [row.id for row in snapshot.devices] == ["cpu"]
    assert snapshot.gpu_note == sentence("no-nvidia-driver-is-installed-library")


@pytest.mark.usefixtures("processes")
def test_a_driver_that_crashes_costs_the_gpus_only(two_gpus: FakeNvml) -> None:
    two_gpus.fail("gpu1", "nvmlDeviceGetFanSpeed", CRASH)
    snapshot = snapshot_once()
    assert [row.id for row in snapshot.devices] == ["cpu"]
    assert snapshot.gpu_note.startswith(sentence("nvidia-driver-cannot-be-asked-telemetry"))


@pytest.mark.usefixtures("processes")
def test_only_cards_that_answer_can_be_chosen(two_gpus: FakeNvml) -> None:
    assert gpu_uuids() == (FIRST, SECOND)
    two_gpus.fail("gpu1", "nvmlDeviceGetPowerUsage", GPU_IS_LOST)
    assert gpu_uuids() == (SECOND,)


def test_without_a_compiler_the_tests_fail_and_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match=sentence("need-c-compiler-install-gcc").pattern):
        build_library()


@pytest.mark.usefixtures("processes")
def test_cards_of_amd_stand_after_those_of_nvidia_and_hide_no_fault_of_its_driver(
    two_gpus: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DrmDouble(tmp_path / "linux").add_amd("0000:01:00.0", serial="8d2c0a4b5c6d7e8f")
    monkeypatch.setenv(ROOT, str(tmp_path / "linux"))
    snapshot = snapshot_once()
    numbers = {row.id: row.index for row in snapshot.devices}
    assert numbers == {SECOND: 0, FIRST: 1, "GPU-8d2c0a4b5c6d7e8f": 2, "cpu": None}
    two_gpus.fail("system", "nvmlInit", LIB_RM_VERSION_MISMATCH)
    broken = snapshot_once()
    assert [row.index for row in broken.devices] == [0, None]
    assert broken.gpu_note == sentence("nvidia-driver-was-replaced-in-use")
