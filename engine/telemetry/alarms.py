"""Alarms about devices: each snapshot may raise and clear alarms."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from engine.telemetry import alarm_text
from engine.telemetry.alarm_text import name_of
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

HOT_MARGIN, COOL_MARGIN = 5.0, 10.0
"""Degrees below the slowdown threshold: with at most HOT_MARGIN the device is hot, with more than
COOL_MARGIN it is no longer hot."""

FULL, ROOMY = 0.95, 0.90
"""Used parts of the memory: from FULL on it is nearly full, below ROOMY it no longer is."""

IDLE_SECONDS = 60.0
"""Time without any work after which a device of a training run counts as idle."""

CALM_SECONDS = 30.0
"""Time without a slowdown after which a throttled GPU counts as recovered."""

_LONGEST_GAP = 10.0
"""Seconds between two snapshots; a longer gap does not count as idle time."""

Severity = Literal["warning", "error"]


class AlarmKind(StrEnum):
    """The kinds of problems that a device can have."""

    LOST = "lost"
    HOT = "hot"
    THROTTLED = "throttled"
    MEMORY = "memory"
    ECC = "ecc"
    IDLE = "idle"

    @property
    def is_sticky(self) -> bool:
        """Whether the user cannot dismiss it: only the device clears it."""
        return self in (AlarmKind.LOST, AlarmKind.ECC)

    @property
    def severity(self) -> Severity:
        """`error`: work is lost or may be wrong; `warning`: work is slow or may fail soon."""
        return "error" if self.is_sticky else "warning"


class DeviceAlarm(msgspec.Struct, frozen=True):
    """A current problem of a device."""

    device: str
    kind: AlarmKind
    text: str
    """A sentence: the device, the problem, what the user can do."""

    since: float
    """Seconds since the epoch."""

    @property
    def id(self) -> str:
        """A key that is unique among the alarms of this machine."""
        return f"{self.device}/{self.kind}"


class Change(NamedTuple):
    """An alarm that is now raised or cleared."""

    alarm: DeviceAlarm
    is_raised: bool
    text: str
    """The sentence to show now."""


class Alarms:
    """The alarms of all devices; their only clock is the time in the snapshots."""

    def __init__(self) -> None:
        self._rules: dict[str, dict[AlarmKind, _Rule]] = {}
        self._active: dict[str, DeviceAlarm] = {}

    @property
    def active(self) -> tuple[DeviceAlarm, ...]:
        """The current alarms, oldest first."""
        return tuple(self._active.values())

    def update(self, snapshot: Snapshot, should_work: Collection[str] = ()) -> list[Change]:
        """Return the alarms that `snapshot` raises or clears.

        `should_work`: ids of the devices that a run needs now. An unknown value changes no alarm.
        """
        changes = []
        for device in snapshot.devices:
            for kind, rule in self._rules.setdefault(device.id, _new_rules()).items():
                verdict = rule(device, snapshot.time, device.id in should_work)
                change = self._apply(verdict, kind, device, snapshot.time)
                if change is not None:
                    changes.append(change)
        return changes

    def _apply(
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


_Rule = Callable[[DeviceSnapshot, float, bool], bool | None]
"""Called with a device, the time and whether it should work; returns True to raise the alarm, False
to clear it, None to change nothing."""


def _new_rules() -> dict[AlarmKind, _Rule]:
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
    part = alarm_text.memory_fraction(device)
    if part is None:
        return None
    return True if part >= FULL else False if part < ROOMY else None


class _Throttled:
    """The hardware slows the device down. The reasons flicker: CALM_SECONDS without clear it."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
        if device.throttle_reasons is None:
            return None
        if alarm_text.hardware_reasons(device):
            self._last = time
            return True
        return False if time - self._last >= CALM_SECONDS else None


class _EccErrors:
    """The error count has increased; a decrease means that the card was reset."""

    def __init__(self) -> None:
        self._known: int | None = None

    def __call__(self, device: DeviceSnapshot, time: float, should_work: bool) -> bool | None:
        before, now = self._known, device.ecc_uncorrected
        if now is None:
            return None
        self._known = now
        return None if before is None or now == before else now > before


class _Idle:
    """The utilisation is 0 % for IDLE_SECONDS, although a run needs the device."""

    def __init__(self) -> None:
        self._idle_seconds = 0.0
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
        if last is None:
            self._idle_seconds = 0.0
        elif 0 <= time - last <= _LONGEST_GAP:  # below 0: the clock was set
            self._idle_seconds += time - last
        return True if self._idle_seconds >= IDLE_SECONDS else None


_Sentence = Callable[[DeviceSnapshot], str]

_RAISED: dict[AlarmKind, _Sentence] = {
    AlarmKind.LOST: alarm_text.lost,
    AlarmKind.HOT: alarm_text.hot,
    AlarmKind.THROTTLED: alarm_text.throttled,
    AlarmKind.MEMORY: alarm_text.memory_full,
    AlarmKind.ECC: alarm_text.ecc_errors,
    AlarmKind.IDLE: alarm_text.idle,
}
_CLEARED: dict[AlarmKind, _Sentence] = {
    AlarmKind.LOST: lambda device: f"{name_of(device)} answers again.",
    AlarmKind.HOT: lambda device: f"{name_of(device)} has cooled down.",
    AlarmKind.THROTTLED: lambda device: f"{name_of(device)} is not slowed down any more.",
    AlarmKind.MEMORY: lambda device: f"{alarm_text.memory_of(device)} has room again.",
    AlarmKind.ECC: lambda device: f"{name_of(device)} was reset: its errors count from 0 again.",
    AlarmKind.IDLE: lambda device: f"{name_of(device)} works again, or is not needed now.",
}
