"""Names of devices: those of this machine, and those of another one of the cluster."""

from __future__ import annotations

import pytest

from engine.spec.device_names import local_name, machine_of, on_machine


@pytest.mark.parametrize(
    ("device", "machine", "local"),
    [
        ("cpu:0", "", "cpu:0"),
        ("GPU-1b2c", "", "GPU-1b2c"),
        ("desk/cpu:1", "desk", "cpu:1"),
        ("node-7.lab/MIG-1b2c", "node-7.lab", "MIG-1b2c"),
    ],
)
def test_a_device_of_another_machine_has_its_name_before_it(
    device: str, machine: str, local: str
) -> None:
    assert machine_of(device) == machine
    assert local_name(device) == local
    assert on_machine(machine, local) == device
