"""The details of one device."""

from __future__ import annotations

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from engine.telemetry.memory_attribution import memory_uses
from engine.telemetry.snapshot import Snapshot
from gui.devices.device_detail import DeviceDetail
from gui.devices.device_facts import facts
from gui.devices.link_matrix import LinksDialog
from tests.support.device_states import (
    ASLEEP,
    BUSY,
    HOT,
    LOST,
    MIG,
    OTHERS,
    SILENT,
    TIME,
    eight_gpus,
    gpu,
    workers,
)
from tests.support.sentences import sentence


@pytest.fixture
def detail(qtbot: QtBot) -> DeviceDetail:
    made = DeviceDetail()
    qtbot.addWidget(made)
    return made


def show(detail: DeviceDetail, id: str, snapshot: Snapshot | None = None) -> None:
    picture = snapshot or eight_gpus()
    [device] = [each for each in picture.devices if each.id == id]
    detail.watch(id)
    detail.show_device(device, memory_uses(picture.devices, workers()).get(id), picture)
    detail.show()


def table(detail: DeviceDetail) -> list[list[str]]:
    items = [detail.users.topLevelItem(row) for row in range(detail.users.topLevelItemCount())]
    return [[item.text(column) for column in range(7)] for item in items if item is not None]


def test_every_field_is_a_value_or_says_why_there_is_none(detail: DeviceDetail) -> None:
    show(detail, BUSY)
    said = {
        caption: detail.value(caption).text()
        for caption in ("Power / limit", "Clock", "Memory clock", "Performance state")
    }
    assert list(said.values()) == ["612 / 700 W", "1755 MHz", "2619 MHz", "P0"]
    assert detail.value("PCIe, sent / received").text() == "2.9 GiB/s / 1.1 GiB/s"
    assert detail.value("NVLink, sent / received").text() == "82.0 GiB/s / 81.0 GiB/s"
    assert detail.value("Fan").text() == "n/a"
    assert detail.value("Fan").toolTip() == "not supported"
    assert detail.value("Fan").accessibleName() == "Fan: n/a, not supported"
    assert BUSY in detail.address.text()
    assert "00000000:10:00.0" in detail.address.text()


def test_critical_values_have_a_sign_and_a_colour(detail: DeviceDetail) -> None:
    show(detail, HOT)
    slowed, heat = detail.value("Slowed down"), detail.value("Temperature / slowdown")
    assert slowed.text() == sentence("hardware-thermal-slowdown")
    assert heat.text() == "⚠ 85 / 87 °C"
    assert slowed.property("tone") == heat.property("tone") == "warning"
    assert detail.value("ECC errors, corrected").text() == "3"
    show(detail, BUSY)
    assert detail.value("Slowed down").text() == "no"
    assert not detail.value("Temperature / slowdown").property("tone")


def test_critical_values_have_a_sign_and_settings_none() -> None:
    [slowed] = [
        fact
        for fact in facts(gpu(0, throttle_reasons=("power limit",)))
        if fact.caption == "Slowed down"
    ]
    assert (slowed.value, slowed.tone) == ("power limit", "")
    [errors] = [
        fact
        for fact in facts(gpu(0, ecc_uncorrected=2))
        if fact.caption == "ECC errors, uncorrected"
    ]
    assert (errors.value, errors.tone) == ("⚠ 2", "bad")


def test_the_users_of_the_memory_are_a_table(detail: DeviceDetail) -> None:
    show(detail, OTHERS)
    assert table(detail)[0] == ["python", "4242", "guest", "36.0 GiB", "", "", ""]
    show(detail, BUSY)
    who, pid, _, *amounts = table(detail)[0]
    assert who.endswith("#42, rank 0")
    assert pid == "7001"
    assert amounts == ["60.9 GiB", "41.0 GiB", "17.5 GiB", "2.4 GiB"]
    assert [row[0] for row in table(detail)][1:] == ["an unknown process", "reserved by driver"]


def test_slices_and_links_are_shown_where_there_are_any(detail: DeviceDetail) -> None:
    show(detail, MIG)
    assert detail.slices.isVisible()
    assert detail.slices.topLevelItemCount() == 3
    assert detail.matrix.isVisible()
    show(detail, BUSY)
    assert not detail.slices.isVisible()
    alone = eight_gpus()
    show(detail, BUSY, msgspec.structs.replace(alone, devices=alone.devices[:1], links=()))
    assert not detail.matrix.isVisible()


@pytest.mark.parametrize(("id", "words"), [(LOST, "fallen off the bus"), (ASLEEP, "Powered down")])
def test_without_figures_it_says_why(detail: DeviceDetail, id: str, words: str) -> None:
    show(detail, BUSY)
    show(detail, id)
    assert words in detail.state.text()
    assert not detail.users.isVisible()
    with pytest.raises(KeyError):
        detail.value("Power / limit")


def test_stale_figures_say_since_when(detail: DeviceDetail) -> None:
    show(detail, SILENT)
    assert not detail.stale_note.isVisible()
    detail.set_stale(TIME)
    assert detail.stale_note.isVisible()
    assert detail.stale_note.text().startswith("no news since ")
    detail.set_stale(None)
    assert not detail.stale_note.isVisible()


def test_the_matrix_names_every_pair(qtbot: QtBot) -> None:
    dialog = LinksDialog(eight_gpus())
    qtbot.addWidget(dialog)
    matrix = dialog.matrix
    assert (matrix.rowCount(), matrix.columnCount()) == (8, 8)

    def cell(row: int, column: int) -> str:
        item = matrix.item(row, column)
        assert item.toolTip()
        return item.text()

    assert [cell(0, 1), cell(1, 0), cell(0, 4), cell(3, 4), cell(5, 5)] == [
        "NVL", "NVL", "system", "?", "–",
    ]  # fmt: skip
    item = matrix.item(3, 4)
    assert item.toolTip() == sentence("driver-does-not-say-how-gpus-are-joined")
