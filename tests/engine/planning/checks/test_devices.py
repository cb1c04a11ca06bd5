"""What is said of others on the devices."""

from __future__ import annotations

from typing import Any

import pytest

from engine.doctor.finding import Finding
from engine.planning.checks.devices import devices_findings
from engine.runs.device_queue import Ticket
from engine.spec.run_spec import RunSpec
from engine.telemetry.memory_attribution import memory_uses
from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess, Snapshot
from tests.support.sentences import sentence

GIB = 2**30


def spec(*devices: str, **changes: Any) -> RunSpec:
    return RunSpec(recipe="digits", strategy="torch/ddp", devices=devices, **changes)


def gpu(number: int, *processes: GpuProcess) -> DeviceSnapshot:
    used = sum(each.memory or 0 for each in processes)
    return DeviceSnapshot(
        id=f"GPU-{number}",
        kind="gpu",
        label=str(number),
        name="H100",
        index=number,
        memory_total=80 * GIB,
        memory_used=used,
        memory_reserved=0,
        memory_free=80 * GIB - used,
        processes=processes,
    )


def cpu(utilisation: float) -> DeviceSnapshot:
    return DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="", utilisation=utilisation)


def findings(
    wanted: RunSpec, *devices: DeviceSnapshot, tickets: tuple[Ticket, ...] = ()
) -> list[Finding]:
    snapshot = Snapshot(time=0.0, devices=devices)
    given = tuple(each.id for each in devices if each.kind == "gpu")
    return devices_findings(wanted, snapshot, memory_uses(devices, ()), tickets, given, 4)


MIA = GpuProcess(pid=7, name="python", user="mia", memory=30 * GIB, started=1.0)


def test_nobody_else() -> None:
    (found,) = findings(spec("GPU-0"), gpu(0))
    assert (found.level, "No other program" in found.text) == ("ok", True)


def test_a_program_of_somebody_else_is_named_with_its_memory() -> None:
    (found,) = findings(spec("GPU-0"), gpu(0, MIA))
    assert found.level == "warning"
    assert found.text == sentence("python-of-mia-gib-uses-gpu")
    assert found.change is None


def test_a_free_gpu_is_proposed_in_its_place() -> None:
    (found,) = findings(spec("GPU-0", "GPU-1"), gpu(0, MIA), gpu(1), gpu(2))
    assert found.advice == "GPU 2 is free."
    assert found.change is not None
    assert found.change.label == sentence("use-gpu-in-place-of-gpu")
    assert found.change.fields == {"devices": ["GPU-2", "GPU-1"]}


def ticket(place: Any, *devices: str) -> Ticket:
    return Ticket("12", 1, 1.0, devices, devices, place)


@pytest.mark.parametrize(
    ("place", "phrase"),
    [("inside", sentence("run-uses-gpu-this-run")), ("waiting", "Run 12 waits for GPU 0")],
)
def test_a_run_on_the_same_gpu_is_waited_for(place: str, phrase: str) -> None:
    (found,) = findings(spec("GPU-0"), gpu(0), tickets=(ticket(place, "GPU-0"),))
    assert (found.level, found.text.startswith(phrase)) == ("hint", True)


def test_a_run_on_the_same_cpu_is_not_waited_for() -> None:
    (found,) = findings(spec("cpu:0"), cpu(0), tickets=(ticket("inside", "cpu:0"),))
    assert "both share it" in found.text
    assert found.change is not None
    assert found.change.fields == {"queue": "always"}


def test_a_run_that_has_released_its_devices_is_no_obstacle() -> None:
    (found,) = findings(spec("GPU-0"), gpu(0), tickets=(ticket("aside", "GPU-0"),))
    assert found.level == "ok"


def test_busy_processors_are_told() -> None:
    (found,) = findings(spec("cpu:0"), cpu(80.0))
    assert sentence("other-programs-use-of-processors-now") in found.text


def test_more_cpu_devices_than_processors_compute_in_turns() -> None:
    (found,) = findings(spec(*(f"cpu:{n}" for n in range(8))), cpu(0))
    assert sentence("cpu-devices-share-processors") in found.text
    assert found.change is not None
    assert found.change.fields == {"devices": ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]}
