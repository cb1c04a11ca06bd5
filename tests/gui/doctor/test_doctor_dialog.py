"""The dialog Doctor, with the checks of a double."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.doctor.finding import Finding
from gui.bridge.background import Background
from gui.bridge.doctor import Doctor
from gui.devices.device_list import DeviceList
from gui.doctor.doctor_dialog import DoctorDialog
from tests.support.sentences import sentence

GOOD = Finding("driver", "ok", "It works.")
BAD = Finding("NCCL", "error", "It hangs.", "Set this.")
UNKNOWN = Finding("XLA", "unknown", "Not asked.")


class AskedDoctor(Doctor):
    """Notes what is asked of it; the test says what is found."""

    def __init__(self, background: Background) -> None:
        super().__init__(background)
        self.asked: list[bool | str] = []

    def examine(self, *, on_gpus: bool, machine: str = "") -> None:
        self.asked.append(f"{machine} {on_gpus}" if machine else on_gpus)
        self.is_running = True
        self.begun.emit(on_gpus)

    def stop(self) -> None:
        self.asked.append("stop")

    def find(self, *checks: Finding, complete: bool = True) -> None:
        for check in checks:
            self.checked.emit(check)
        self.is_running = False
        self.ended.emit(complete)


@pytest.fixture
def doctor(qtbot: QtBot) -> Iterator[AskedDoctor]:
    background = Background()
    yield AskedDoctor(background)
    background.finish()


@pytest.fixture
def dialog(doctor: AskedDoctor, qtbot: QtBot) -> DoctorDialog:
    made = DoctorDialog(doctor)
    qtbot.addWidget(made)
    return made


def test_only_a_click_touches_a_gpu(dialog: DoctorDialog, doctor: AskedDoctor) -> None:
    assert doctor.asked == []
    dialog.show()
    assert doctor.asked == [False]
    assert not dialog.run_button.isEnabled()
    assert dialog.stop_button.isEnabled()
    doctor.progress.emit("driver")
    assert dialog.state.text() == "Now: driver …"
    doctor.find(GOOD)
    assert not dialog.stop_button.isEnabled()
    dialog.run_button.click()
    assert doctor.asked == [False, True]
    assert dialog.checks == []  # a new examination shows nothing old
    dialog.stop_button.click()
    doctor.find(GOOD, complete=False)
    assert dialog.state.text() == "Stopped after 1."
    dialog.hide()
    dialog.show()
    assert doctor.asked == [False, True, "stop"]  # what was found is still shown


def test_the_next_machine_waits_for_this_one(dialog: DoctorDialog, doctor: AskedDoctor) -> None:
    dialog.show()
    assert not dialog.machine.isVisible()
    dialog.offer_machines({"gpus": True})
    assert dialog.machine.isVisible()
    doctor.checked.emit(GOOD)
    dialog.machine.choose("gpus")
    assert (dialog.windowTitle(), "Whether gpus can train" in dialog.about.text()) == (
        "Doctor: gpus",
        True,
    )
    assert doctor.asked == [False, "stop"]
    doctor.progress.emit("driver")
    doctor.find(GOOD, complete=False)  # which is late, and of this machine
    assert doctor.asked == [False, "stop", "gpus False"]
    assert (dialog.checks, dialog.state.text()) == ([], "")
    doctor.find(BAD)
    assert dialog.checks == [BAD]
    dialog.run_button.click()
    assert doctor.asked[-1] == "gpus True"


def test_a_machine_that_is_gone_is_not_examined(dialog: DoctorDialog, doctor: AskedDoctor) -> None:
    dialog.offer_machines({"gpus": True})
    dialog.machine.choose("gpus")
    dialog.show()
    doctor.checked.emit(GOOD)
    dialog.offer_machines({"gpus": False})
    doctor.find(complete=False)
    doctor.failed.emit("The connection to gpus broke.")
    assert dialog.state.text() == sentence("stopped-after-connection-to-gpus-broke")
    assert not dialog.run_button.isEnabled()
    dialog.offer_machines({"gpus": True})
    assert dialog.run_button.isEnabled()
    assert doctor.asked == ["gpus False"], "nothing is repeated by itself"


def test_each_check_has_its_remedy(dialog: DoctorDialog, doctor: AskedDoctor, qtbot: QtBot) -> None:
    dialog.show()
    doctor.find(GOOD, BAD, UNKNOWN)
    assert dialog.state.text() == sentence("checked-problems-were-found")
    good, bad, unknown = dialog.rows
    assert [row.mark.accessibleName() for row in dialog.rows] == [
        "In order",
        "Error",
        "Not checked",
    ]
    assert [row.advice.isHidden() for row in dialog.rows] == [True, False, True]
    assert bad.advice.text() == "Set this."
    assert bad.accessibleName() == sentence("nccl-has-a-problem")
    assert good.accessibleName() == sentence("driver-in-order-it-works")
    assert unknown.accessibleName() == sentence("xla-not-checked-not-asked")
    assert bad.advice.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
    with qtbot.waitSignal(doctor.reported):
        dialog.copy_button.click()
    text = QGuiApplication.clipboard().text()
    assert "PROBLEM  NCCL: It hangs." in text
    assert "-> Set this." in text


def test_enter_does_not_compute_on_the_gpus(dialog: DoctorDialog, doctor: AskedDoctor) -> None:
    dialog.show()
    doctor.find(GOOD)
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    assert True not in doctor.asked
    assert not dialog.isVisible()


def test_a_closed_dialog_computes_nothing_more(dialog: DoctorDialog, doctor: AskedDoctor) -> None:
    dialog.show()
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert doctor.asked == [False, "stop"]
    assert not dialog.isVisible()


def test_the_devices_offer_the_doctor_in_a_quiet_line_if_something_is_odd(qtbot: QtBot) -> None:
    devices = DeviceList()
    qtbot.addWidget(devices)
    devices.show()
    assert devices.doctor_button.isHidden()
    devices.show_odd([BAD])
    assert devices.doctor_button.text() == "⚠ NCCL: see the doctor"
    assert "It hangs." in devices.doctor_button.toolTip()
    with qtbot.waitSignal(devices.doctor_wanted):
        devices.doctor_button.click()
    devices.show_odd([BAD, BAD, BAD])
    assert devices.doctor_button.text() == sentence("nccl-and-more-see-doctor")
    devices.show_odd([])
    assert devices.doctor_button.isHidden()
