"""The alarm bar: visible only while there is an alarm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.client import get_run
from engine.messages.events import Alarm, AttemptStarted, Event, RunEnded
from engine.runs.store.store_reader import StoredEvent
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.devices.alarm_bar import AlarmBar
from gui.style.theme import DARK
from tests.support.sentences import sentence

Record = Callable[..., Any]

HOT = {"temperature": 90.0, "temperature_slowdown": 93.0}
COOL = {"temperature": 50.0, "temperature_slowdown": 93.0}
LOST = {"lost": "It fell off the bus."}


@pytest.fixture
def bar(qtbot: QtBot) -> AlarmBar:
    made = AlarmBar(DARK)
    qtbot.addWidget(made)
    return made


def see(bar: AlarmBar, *devices: dict[str, Any], time: float = 1.0) -> None:
    bar.show_snapshot(
        Snapshot(
            time=time,
            devices=tuple(
                DeviceSnapshot(id=f"GPU-{n}", kind="gpu", label=str(n), name="G", **known)
                for n, known in enumerate(devices)
            ),
        )
    )


def hear(bar: AlarmBar, *events: Event) -> None:
    bar.add_events([StoredEvent(seq, 100.0, event) for seq, event in enumerate(events, 1)])


def texts(bar: AlarmBar) -> list[str]:
    return [line.sentence.text() for line in bar.lines]


def test_it_is_there_while_something_is_wrong(bar: AlarmBar) -> None:
    see(bar, COOL)
    assert bar.isHidden()
    see(bar, HOT)
    assert not bar.isHidden()
    assert texts(bar) == [sentence("gpu-is-at-c-and-slows", gpu=0, temperature=90)]
    assert bar.lines[0].accessibleName() == f"Warning: {texts(bar)[0]}"
    line = bar.lines[0]
    see(bar, {"temperature": 89.0, "temperature_slowdown": 93.0})
    assert bar.lines == [line], "a line that stays is not made anew"
    see(bar, COOL)
    assert bar.isHidden()


def test_several_are_one_line_that_opens_with_the_worst_above(bar: AlarmBar) -> None:
    bar.show()
    see(bar, HOT)
    assert bar.heading.text() == texts(bar)[0]
    see(bar, HOT, HOT, HOT, LOST)
    folded = bar.sizeHint().height()
    assert bar.heading.text().startswith(sentence("alarms-gpu-is-lost-it-fell"))
    assert "GPU 2 is at 90 °C" in bar.heading.toolTip()
    assert not any(line.isVisible() for line in bar.lines)
    bar.open_button.click()
    assert bar.heading.text() == "4 alarms"
    assert all(line.isVisible() for line in bar.lines)
    assert texts(bar)[0].startswith(sentence("gpu-3-is-lost-it-fell-off-bus"))
    assert bar.lines[0].accessibleName().startswith("Error: ")
    assert bar.sizeHint().height() > 2 * folded
    bar.open_button.click()
    assert bar.sizeHint().height() == folded


def test_a_dismissed_alarm_comes_back_when_raised_again(bar: AlarmBar, qtbot: QtBot) -> None:
    see(bar, HOT)
    qtbot.mouseClick(bar.lines[0].dismiss, Qt.MouseButton.LeftButton)
    assert bar.isHidden()
    see(bar, HOT, time=2.0)
    assert bar.isHidden()
    see(bar, COOL, time=3.0)
    see(bar, HOT, time=4.0)
    assert not bar.isHidden()


def test_a_lost_gpu_cannot_be_dismissed(bar: AlarmBar) -> None:
    see(bar, LOST, HOT)
    assert [line.dismiss.isHidden() for line in bar.lines] == [True, False]


IDLE = Alarm("GPU-1", "idle", "GPU 1 has done nothing.", True)


def test_an_idle_device_is_reported_by_the_watched_run(bar: AlarmBar) -> None:
    hear(bar, IDLE, Alarm("GPU-1", "hot", "GPU 1 is hot.", True))
    assert texts(bar) == ["GPU 1 has done nothing."], "the rest is seen in the snapshots"
    hear(bar, Alarm("GPU-1", "idle", "GPU 1 works again.", False))
    assert bar.isHidden()


@pytest.mark.parametrize(
    "event", [RunEnded("stopped", "x"), AttemptStarted(2, 1, 1.0)], ids=["end", "new attempt"]
)
def test_a_run_that_ends_wants_nothing_from_its_devices(bar: AlarmBar, event: Event) -> None:
    hear(bar, IDLE, event)
    assert bar.isHidden()
    hear(bar, IDLE)
    bar.clear_run()
    assert bar.isHidden()


def test_an_interrupted_run_wants_nothing_either(bar: AlarmBar, record: Record) -> None:
    recording = record()
    recording.begin()
    hear(bar, IDLE)
    bar.show_info(get_run(recording.id))
    assert not bar.isHidden()
    recording.add(AttemptStarted(2, 2**22 + 1, 1.0))  # no such process
    bar.show_info(get_run(recording.id))
    assert bar.isHidden()
