"""When alarms are raised, when they end, and what changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from engine.telemetry.alarms import AlarmKind, Alarms, Change
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.sentences import sentence

GIB = 2**30
ID = "GPU-1"


def gpu(**known: Any) -> DeviceSnapshot:
    return DeviceSnapshot(id=ID, kind="gpu", label="1", name="NVIDIA H100", **known)


class Watched:
    """Alarms that are shown one device, a snapshot a second."""

    def __init__(self) -> None:
        self.alarms = Alarms()
        self.time = 1000.0

    def see(self, seconds: float = 1.0, *, should_work: bool = False, **known: Any) -> list[Change]:
        """What a snapshot changes that comes `seconds` after the one before."""
        self.time += seconds
        snapshot = Snapshot(time=self.time, devices=(gpu(**known),))
        return self.alarms.update(snapshot, {ID} if should_work else ())

    def kinds(self) -> list[AlarmKind]:
        return [alarm.kind for alarm in self.alarms.active]


@pytest.fixture
def watched() -> Watched:
    return Watched()


HOT = {"temperature": 88.0, "temperature_slowdown": 93.0}
WARM = {"temperature": 84.0, "temperature_slowdown": 93.0}
COOL = {"temperature": 82.9, "temperature_slowdown": 93.0}
FULL = {"memory_used": 76 * GIB, "memory_total": 80 * GIB}
QUITE_FULL = {"memory_used": 75 * GIB, "memory_total": 80 * GIB}
ROOMY = {"memory_used": 71 * GIB, "memory_total": 80 * GIB}


@pytest.mark.parametrize(
    ("kind", "on", "between", "off"),
    [(AlarmKind.HOT, HOT, WARM, COOL), (AlarmKind.MEMORY, FULL, QUITE_FULL, ROOMY)],
)
def test_there_is_a_band_in_which_nothing_changes(
    watched: Watched,
    kind: AlarmKind,
    on: dict[str, Any],
    between: dict[str, Any],
    off: dict[str, Any],
) -> None:
    assert watched.see(**between) == []
    [raised] = watched.see(**on)
    assert raised.is_raised
    assert (raised.alarm.device, raised.alarm.kind) == (ID, kind)
    assert raised.alarm.since == watched.time
    assert watched.see(**on) == watched.see(**between) == watched.see() == []
    assert watched.kinds() == [kind]
    [cleared] = watched.see(**off)
    assert (cleared.is_raised, cleared.alarm) == (False, raised.alarm)
    assert watched.kinds() == []
    assert watched.see(**between) == []


def test_sentences_say_what_and_where_and_what_to_do(watched: Watched) -> None:
    [hot] = watched.see(**HOT)
    assert hot.text == sentence("gpu-is-at-c-and-slows", gpu=1, temperature=88)
    [full] = watched.see(**FULL)
    assert full.text.startswith(sentence("memory-of-gpu-is-full"))
    assert full.alarm.id == "GPU-1/memory"
    [lost] = watched.see(lost="It fell off the bus.")
    assert lost.text.startswith(sentence("gpu-1-is-lost-it-fell-off-bus"))
    [back] = watched.see()
    assert back.text == "GPU 1 answers again."


def test_memory_that_the_driver_keeps_counts_as_used(watched: Watched) -> None:
    total = {"memory_total": 4 * GIB}
    assert watched.see(memory_used=3.6 * GIB, **total) == []
    assert watched.see(memory_used=3.6 * GIB, memory_reserved=0.3 * GIB, **total)


def test_the_memory_of_the_machine_is_watched_too() -> None:
    cpu = DeviceSnapshot(
        id="cpu", kind="cpu", label="CPU", name="x", memory_used=99 * GIB, memory_total=100 * GIB
    )
    [change] = Alarms().update(Snapshot(time=1.0, devices=(cpu,)))
    assert change.text.startswith(sentence("memory-of-this-machine-is-full"))


def test_a_temperature_without_a_threshold_is_no_alarm(watched: Watched) -> None:
    assert watched.see(temperature=120.0) == []
    assert watched.see(temperature_slowdown=90.0) == []


def test_a_lost_gpu_is_lost_until_it_answers(watched: Watched) -> None:
    watched.see()
    [raised] = watched.see(lost="GPU is lost")
    assert (raised.alarm.kind.severity, raised.alarm.kind.is_sticky) == ("error", True)
    for _ in range(100):
        assert watched.see(lost="GPU is lost") == []
    assert watched.alarms.update(Snapshot(time=watched.time + 1, devices=())) == []
    assert watched.kinds() == [AlarmKind.LOST]
    assert [change.is_raised for change in watched.see()] == [False]


@pytest.mark.parametrize(
    ("reasons", "is_alarm"),
    [
        (("hardware thermal slowdown",), True),
        (("power limit", "hardware power brake"), True),
        (("software thermal slowdown",), False),
        (("power limit", "clocks set by hand", "hardware slowdown"), False),
    ],
)
def test_only_heat_and_power_brakes_of_the_hardware_are_alarms(
    watched: Watched, reasons: tuple[str, ...], is_alarm: bool
) -> None:
    watched.see(throttle_reasons=reasons)
    assert watched.kinds() == [AlarmKind.THROTTLED] * is_alarm


def test_a_slowdown_is_over_after_a_while_of_calm(watched: Watched) -> None:
    slow = {"throttle_reasons": ("hardware power brake",)}
    assert "(hardware power brake)" in watched.see(**slow)[0].text
    assert watched.see(29, throttle_reasons=()) == []
    assert watched.see(**slow) == []
    assert watched.see(29, throttle_reasons=()) == watched.see(5) == []
    assert [change.is_raised for change in watched.see(throttle_reasons=())] == [False]


def test_new_errors_of_the_memory_stay_until_the_card_is_reset(watched: Watched) -> None:
    assert watched.see(ecc_uncorrected=3) == []
    assert watched.see() == watched.see(ecc_uncorrected=3) == []
    [raised] = watched.see(ecc_uncorrected=4)
    assert (raised.alarm.kind.severity, raised.alarm.kind.is_sticky) == ("error", True)
    assert watched.see(ecc_uncorrected=4) == watched.see(ecc_uncorrected=5) == watched.see() == []
    assert watched.kinds() == [AlarmKind.ECC]
    assert [change.is_raised for change in watched.see(ecc_uncorrected=0)] == [False]


def test_a_device_of_a_run_that_does_nothing_for_a_minute_is_idle(watched: Watched) -> None:
    for _ in range(60):
        assert watched.see(should_work=True, utilisation=0.0) == []
    [raised] = watched.see(should_work=True, utilisation=0.0)
    assert raised.alarm.kind is AlarmKind.IDLE
    assert watched.see(should_work=True) == []
    [cleared] = watched.see(should_work=True, utilisation=1.0)
    assert not cleared.is_raised


@pytest.mark.parametrize(
    "interruption",
    [
        {"should_work": True, "utilisation": 5.0},
        {"should_work": True, "utilisation": None},
        {"should_work": False, "utilisation": 0.0},
    ],
    ids=["work", "not known", "not needed"],
)
def test_the_minute_begins_again_after_anything_else(
    watched: Watched, interruption: dict[str, Any]
) -> None:
    for _ in range(2):
        for _ in range(50):
            assert watched.see(should_work=True, utilisation=0.0) == []
        assert watched.see(**interruption) == []


def test_time_without_snapshots_is_not_idleness(watched: Watched) -> None:
    for seconds in (1, 600, -300, 1):
        assert watched.see(seconds, should_work=True, utilisation=0.0) == []


def test_a_device_that_no_run_uses_may_be_idle(watched: Watched) -> None:
    for _ in range(100):
        assert watched.see(utilisation=0.0) == []


def test_an_idle_alarm_ends_when_the_run_pauses(watched: Watched) -> None:
    for _ in range(61):
        watched.see(should_work=True, utilisation=0.0)
    assert watched.kinds() == [AlarmKind.IDLE]
    assert [change.is_raised for change in watched.see(utilisation=0.0)] == [False]


def test_devices_have_alarms_of_their_own() -> None:
    alarms = Alarms()
    other = DeviceSnapshot(id="GPU-2", kind="gpu", label="2", name="B", lost="gone")
    changes = alarms.update(Snapshot(time=1.0, devices=(gpu(**HOT), other)))
    assert [change.alarm.id for change in changes] == ["GPU-1/hot", "GPU-2/lost"]
    assert [alarm.id for alarm in alarms.active] == ["GPU-1/hot", "GPU-2/lost"]
