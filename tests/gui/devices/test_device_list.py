"""The list of devices: how rows are painted, focused and opened."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.telemetry.memory_attribution import Worker, memory_uses
from engine.telemetry.snapshot import DeviceSnapshot
from gui.devices.device_list import DeviceList
from gui.style.theme import DARK
from tests.gui.devices.device_lists import colours, devices, gpu, snapshot
from tests.support.device_states import GIB, TIME, process
from tests.support.sentences import sentence

__all__ = ["devices"]


def test_a_row_is_painted_in_its_colour_and_says_its_figures(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(gpu(0), gpu(1)))
    assert DARK.cycle[0] in colours(devices, "GPU-0")
    assert DARK.cycle[1] in colours(devices, "GPU-1")
    spoken = devices.row("GPU-1").accessibleName()
    assert spoken == sentence("gpu-nvidia-utilisation-memory-of-gib")
    assert "300 W" in devices.row("GPU-1").toolTip()


def test_many_gpus_get_one_line_each(devices: DeviceList) -> None:
    cpu = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="EPYC", utilisation=3.0)
    devices.show_snapshot(snapshot(cpu, *(gpu(n) for n in range(4))))
    tall = devices.row("GPU-0").height()
    devices.show_snapshot(snapshot(cpu, *(gpu(n) for n in range(5))))
    assert devices.row("GPU-0").height() == devices.row("cpu").height() < tall / 2
    assert devices.row("cpu").accessibleName() == "EPYC, utilisation 3 %, memory n/a"


def test_the_cpu_beside_gpus_is_one_quiet_line(devices: DeviceList) -> None:
    cpu = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="EPYC", utilisation=50.0)
    devices.show_snapshot(snapshot(cpu))
    tall = devices.row("cpu").height()
    assert DARK.cycle[0] in colours(devices, "cpu")
    devices.show_snapshot(snapshot(cpu, gpu(0)))
    assert devices.row("cpu").height() < tall / 2
    assert not colours(devices, "cpu") & set(DARK.cycle)


def test_the_reason_for_no_gpu_is_shown(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(note="No NVIDIA driver answers."))
    assert devices.gpu_note.isVisible()
    assert devices.gpu_note.text() == "No NVIDIA driver answers."
    devices.show_snapshot(snapshot(gpu(0)))
    assert not devices.gpu_note.isVisible()


def test_every_row_is_reached_by_tab_and_opened_by_enter(devices: DeviceList, qtbot: QtBot) -> None:
    devices.show_snapshot(snapshot(gpu(0), gpu(1)))
    devices.activateWindow()
    first, second = devices.row("GPU-0"), devices.row("GPU-1")
    first.setFocus()
    qtbot.waitUntil(first.hasFocus)
    plain = second.grab().toImage()
    QTest.keyClick(first, Qt.Key.Key_Tab)
    assert second.hasFocus()
    assert second.grab().toImage() != plain  # the focus ring
    with qtbot.waitSignal(devices.detail_wanted) as wanted:
        QTest.keyClick(second, Qt.Key.Key_Return)
    assert wanted.args == ["GPU-1"]
    assert devices.detail.isVisible()
    assert devices.detail.windowTitle() == "GPU 1 NVIDIA H100"
    QTest.keyClick(second, Qt.Key.Key_Up)
    assert first.hasFocus()


def test_a_click_opens_the_details_and_closing_is_told(devices: DeviceList, qtbot: QtBot) -> None:
    devices.show_snapshot(snapshot(gpu(0)))
    with qtbot.waitSignal(devices.detail_wanted) as wanted:
        QTest.mouseClick(devices.row("GPU-0"), Qt.MouseButton.LeftButton)
    assert wanted.args == ["GPU-0"]
    devices.show_snapshot(snapshot(gpu(0, utilisation=12.0)))
    assert devices.detail.value("Utilisation").text() == "12 %"
    with qtbot.waitSignal(devices.detail_wanted) as wanted:
        devices.detail.close()
    assert wanted.args == [""]


def test_the_bar_shows_who_uses_the_memory(devices: DeviceList) -> None:
    worker = Worker("digits", 0, 10, TIME - 3599, ("GPU-0",), 20.0 * GIB, 26.0 * GIB)
    device = gpu(0, 40, processes=(process(10, 28), process(4242, 11.8)))
    devices.show_snapshot(snapshot(device))
    before = colours(devices, "GPU-0")
    devices.show_uses(memory_uses([device], [worker]))
    row = devices.row("GPU-0")
    assert colours(devices, "GPU-0") != before
    assert DARK.other in colours(devices, "GPU-0")
    assert sentence("python-of-guest-pid-gib") in row.toolTip()
    assert sentence("pid-gib-tensors-cache-context") in row.toolTip()
    assert row.accessibleName().endswith(sentence("in-use-by-python-of-guest-gib"))


def test_where_detailed_rows_do_not_fit_each_device_has_one_line(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(gpu(0), gpu(1)))
    tall = devices.row("GPU-0").height()
    devices.fit(2 * tall)  # and nothing for the heading
    assert devices.row("GPU-0").height() < tall / 2
    devices.show_snapshot(snapshot(gpu(0), gpu(1)))
    assert devices.row("GPU-0").height() < tall / 2
    devices.fit(4 * tall)
    assert devices.row("GPU-0").height() == tall
