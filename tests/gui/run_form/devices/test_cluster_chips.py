"""Devices of other machines of a cluster in the form: chips that join those of this machine."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.telemetry.snapshot import DeviceSnapshot
from gui.bridge.cluster_devices import ClusterDevice, ClusterDevices
from gui.run_form.devices.device_choice import DeviceChoice
from tests.support.device_states import eight_gpus

GPU = next(each for each in eight_gpus().devices if each.kind == "gpu")
CPU = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="A CPU")
FAR = (ClusterDevice("gpus/cpu:0", "gpus", CPU), ClusterDevice("gpus/GPU-1", "gpus", GPU))


@pytest.fixture
def choice(qtbot: QtBot) -> DeviceChoice:
    made = DeviceChoice()
    qtbot.addWidget(made)
    made.show_cluster(FAR, is_member=True)
    return made


def test_cpus_of_machines_join_and_a_gpu_there_does_not(choice: DeviceChoice) -> None:
    choice.chips["gpus/cpu:0"].click()
    assert choice.devices() == ("cpu:0", "gpus/cpu:0")
    assert choice.chips["gpus/cpu:0"].accessibleName() == "gpus: CPU"
    choice.chips["gpus/cpu:0"].click()
    choice.cpu.setChecked(True)
    choice.chips["gpus/cpu:0"].click()
    choice.chips["gpus/GPU-1"].click()
    assert choice.devices() == ("gpus/GPU-1",)
    choice.cpu.click()
    assert choice.devices() == ("cpu:0",)


def test_the_devices_of_a_run_over_machines_come_back(choice: DeviceChoice) -> None:
    choice.set_devices(("cpu:0", "cpu:1", "gpus/cpu:0"))
    assert choice.devices() == ("cpu:0", "cpu:1", "gpus/cpu:0")
    choice.set_devices(("cpu:0", "other/cpu:0"))
    assert choice.devices() == ("cpu:0", "other/cpu:0")
    assert "not in the cluster now" in choice.chips["other/cpu:0"].name


def test_a_machine_that_leaves_takes_its_chips_unless_they_are_ticked(choice: DeviceChoice) -> None:
    choice.chips["gpus/cpu:0"].click()
    assert choice.lost_machines() == []
    choice.show_cluster((), is_member=True)
    assert list(choice.chips) == ["gpus/cpu:0"]
    assert choice.lost_machines() == ["gpus"]
    choice.show_cluster((), is_member=False)
    assert choice.lost_machines() == [], "that there is no cluster says more"
    assert not choice.is_in_cluster


def test_without_a_cluster_no_process_is_asked(qtbot: QtBot) -> None:
    devices = ClusterDevices()
    told: list[object] = []
    devices.changed.connect(told.append)
    devices.set_visible(True)
    assert told == []
    devices.set_visible(False)
    devices.close()
