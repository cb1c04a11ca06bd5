"""What is wrong with a device, and since when: alarms that rise and fall with the snapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from engine.telemetry import alarm_text as say
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

HOT_MARGIN, COOL_MARGIN = 5.0, 10.0
"""Degrees below the slowdown threshold: from the first on it is hot, below the second no more."""

FULL, ROOMY = 0.95, 0.90
"""Parts of the memory: from the first on it is nearly full, below the second no more."""

IDLE_SECONDS = 60.0
"""Time without any work after which a device of a run that trains stands idle."""

CALM_SECONDS = 30.0
"""Time without a slowdown after which a throttled GPU counts as recovered."""

_LONGEST_LOOK = 10.0
"""Seconds that one snapshot can vouch for: what happened in a longer silence is not known."""

Severity = Literal["warning", "error"]


class AlarmKind(StrEnum):
    """What can be wrong."""

    LOST = "lost"
    HOT = "hot"
    THROTTLED = "throttled"
    MEMORY = "memory"
    ECC = "ecc"
    IDLE = "idle"

    @property
    def is_sticky(self) -> bool:
        """Whether it stays in sight until the device itself ends it."""
        return self in (AlarmKind.LOST, AlarmKind.ECC)

    @property
    def severity(self) -> Severity:
        """`error`: work is lost or may be wrong; `warning`: it is slow, or in danger."""
        return "error" if self.is_sticky else "warning"


class DeviceAlarm(msgspec.Struct, frozen=True):
    """Something that is wrong now."""

    device: str
    kind: AlarmKind
    text: str
    """A sentence: what, where, what to do."""

    since: float
    """Seconds since the epoch."""

    @property
    def id(self) -> str:
        """Names it among all alarms of this machine."""
        return f"{self.device}/{self.kind}"


class Change(NamedTuple):
    """An alarm that was just raised, or that is over."""

    alarm: DeviceAlarm
    is_raised: bool
    text: str
    """The sentence to say now."""


class Alarms:
    """The alarms of all devices that it is shown; no clock but the snapshots' own."""

    def __init__(self) -> None:
        self._judges: dict[str, dict[AlarmKind, _Judge]] = {}
        self._active: dict[str, DeviceAlarm] = {}

    @property
    def active(self) -> tuple[DeviceAlarm, ...]:
        """What is wrong now, in the order in which it began."""
        return tuple(self._active.values())

    def take(self, snapshot: Snapshot, at_work: Collection[str] = ()) -> list[Change]:
        """What the newest snapshot changes. `at_work`: the devices that a run wants to work now.

        A value that is not known raises nothing and ends nothing.
        """
        changes = []
        for device in snapshot.devices:
            if device.id not in self._judges:
                self._judges[device.id] = _new_judges()
            for kind, judge in self._judges[device.id].items():
                verdict = judge(device, snapshot.time, device.id in at_work)
                change = self._follow(verdict, kind, device, snapshot.time)
                if change is not None:
                    changes.append(change)
        return changes

    def _follow(
        self, verdict: bool | None, kind: AlarmKind, device: DeviceSnapshot, time: float
    ) -> Change | None:
        alarm = self._active.get(f"{device.id}/{kind}")
        if verdict is True and alarm is None:
            alarm = DeviceAlarm(device.id, kind, _RAISED[kind](device), time)
            self._active[alarm.id] = alarm
            return Change(alarm, True, alarm.text)
        if verdict is False and alarm is not None:
            del self._active[alarm.id]
            return Change(alarm, False, _CLEARED[kind](device))
        return None


_Judge = Callable[[DeviceSnapshot, float, bool], bool | None]
"""Given a device, the time and whether it should work: True raises, False clears, None neither."""


def _new_judges() -> dict[AlarmKind, _Judge]:
    return {
        AlarmKind.LOST: _lost,
        AlarmKind.HOT: _hot,
        AlarmKind.THROTTLED: _Throttled(),
        AlarmKind.MEMORY: _memory_full,
        AlarmKind.ECC: _EccErrors(),
        AlarmKind.IDLE: _Idle(),
    }


def _lost(device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
    return device.lost is not None


def _hot(device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
    if device.temperature is None or device.temperature_slowdown is None:
        return None
    margin = device.temperature_slowdown - device.temperature
    return True if margin <= HOT_MARGIN else False if margin > COOL_MARGIN else None


def _memory_full(device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
    part = say.memory_part(device)
    if part is None:
        return None
    return True if part >= FULL else False if part < ROOMY else None


class _Throttled:
    """Slowed down by its own hardware, which flickers: it is over after a while of calm."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
        if device.throttle_reasons is None:
            return None
        if say.hardware_reasons(device):
            self._last = time
            return True
        return False if time - self._last >= CALM_SECONDS else None


class _EccErrors:
    """More errors than before; a counter that begins anew means that the card was reset."""

    def __init__(self) -> None:
        self._known: int | None = None

    def __call__(self, device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
        before, now = self._known, device.ecc_uncorrected
        if now is None:
            return None
        self._known = now
        return None if before is None or now == before else now > before


class _Idle:
    """At 0 % for a while that was watched without a break, although a run wants it to work."""

    def __init__(self) -> None:
        self._watched = 0.0
        self._last: float | None = None

    def __call__(self, device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
        last, self._last = self._last, None
        if not should_work:
            return False
        if device.utilisation is None:
            return None
        if device.utilisation > 0:
            return False
        self._last = time
        self._watched = 0.0 if last is None else self._watched + _between(last, time)
        return True if self._watched >= IDLE_SECONDS else None


def _between(last: float, time: float) -> float:
    """Seconds that were seen; a clock that was set counts for nothing."""
    return time - last if 0 <= time - last <= _LONGEST_LOOK else 0.0


_Sentence = Callable[[DeviceSnapshot], str]

_RAISED: dict[AlarmKind, _Sentence] = {
    AlarmKind.LOST: say.lost,
    AlarmKind.HOT: say.hot,
    AlarmKind.THROTTLED: say.throttled,
    AlarmKind.MEMORY: say.memory_full,
    AlarmKind.ECC: say.ecc_errors,
    AlarmKind.IDLE: say.idle,
}
_CLEARED: dict[AlarmKind, _Sentence] = {
    AlarmKind.LOST: lambda device: f"{say.who(device)} answers again.",
    AlarmKind.HOT: lambda device: f"{say.who(device)} has cooled down.",
    AlarmKind.THROTTLED: lambda device: f"{say.who(device)} is not slowed down any more.",
    AlarmKind.MEMORY: lambda device: f"{say.memory_of(device)} has room again.",
    AlarmKind.ECC: lambda device: f"{say.who(device)} was reset: its errors are counted anew.",
    AlarmKind.IDLE: lambda device: f"{say.who(device)} works again, or is not needed now.",
}
