"""The choice of devices: what is said of each, and which are suggested."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from engine.telemetry.memory_attribution import Worker, memory_uses
from engine.telemetry.snapshot import Link, Snapshot
from gui.devices.link_matrix import LinksDialog
from gui.run_form.devices.device_choice import DeviceChoice
from gui.run_form.devices.worker_spinbox import WorkerSpinBox
from tests.support.device_states import (
    ASLEEP,
    BUSY,
    IDLE,
    LOST,
    MIG,
    OTHERS,
    SILENT,
    cpu,
    eight_gpus,
    gpu,
    process,
    uuid,
    workers,
)
from tests.support.sentences import sentence


@pytest.fixture
def choice(qtbot: QtBot) -> DeviceChoice:
    made = DeviceChoice()
    qtbot.addWidget(made)
    made.show()
    return made


def show(choice: DeviceChoice, snapshot: Snapshot, ours: Sequence[Worker] = ()) -> None:
    """In the order of the window: who uses the memory comes first."""
    choice.show_uses(memory_uses(snapshot.devices, ours))
    choice.show_snapshot(snapshot)


def linked(*pairs: tuple[int, int], gpus: int = 4) -> Snapshot:
    """Empty GPUs, of which `pairs` have NVLink."""
    links = tuple(Link(uuid(a), uuid(b), "NVLink") for a, b in pairs)
    return Snapshot(time=0.0, devices=(*(gpu(k) for k in range(gpus)), cpu()), links=links)


def test_the_first_gpu_that_nobody_uses_is_chosen_at_first(choice: DeviceChoice) -> None:
    show(choice, eight_gpus(), workers())
    assert choice.devices() == (ASLEEP,)


def test_a_card_that_was_not_given_cannot_be_ticked_and_says_why(
    choice: DeviceChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{uuid(1)},{uuid(0)}")
    show(choice, Snapshot(time=0.0, devices=(gpu(0), gpu(1), gpu(2), cpu())))
    assert choice.devices() == (uuid(1),)  # the one that CUDA gives the number 0
    assert choice.known_gpus == {uuid(0), uuid(1)}
    outside = choice.chips[uuid(2)]
    assert not outside.isEnabled()
    assert sentence("was-not-given-to-traindeck") in outside.toolTip()
    choice.set_devices((uuid(2),))  # a preset, or an earlier run
    show(choice, Snapshot(time=1.0, devices=(gpu(0), gpu(1), gpu(2), cpu())))
    assert outside.isEnabled()  # so that it can be unticked
    assert "was not given" in choice.given.refusal(uuid(2))


def test_a_card_with_somebody_elses_work_says_so_before_the_start(choice: DeviceChoice) -> None:
    show(choice, eight_gpus(), workers())
    assert choice.chips[OTHERS].note == sentence("warns-of-guest-and-more")
    assert choice.chips[BUSY].note == sentence("in-use-by-your-run-resnet18")
    assert choice.chips[IDLE].note == choice.warning == ""
    choice.chips[OTHERS].click()
    assert sentence("gpu-is-in-use-by-other") in choice.warning
    assert choice.problem_note.problem == ""
    assert OTHERS in choice.devices()
    choice.chips[OTHERS].click()
    assert choice.warning == ""


def test_the_warning_comes_and_goes_with_the_work(choice: DeviceChoice) -> None:
    calm = Snapshot(time=0.0, devices=(gpu(0),))
    show(choice, calm)
    assert choice.devices() == (uuid(0),)
    busy = Snapshot(time=1.0, devices=(gpu(0, 12.7, processes=(process(4242, 12.3),)),))
    show(choice, busy)
    assert choice.chips[uuid(0)].note == sentence("warns-of-guest")
    assert choice.warning
    show(choice, calm)
    assert choice.chips[uuid(0)].note == choice.warning == ""


def test_as_many_as_are_ticked_are_suggested(choice: DeviceChoice, qtbot: QtBot) -> None:
    show(choice, linked((1, 3)))
    assert choice.devices() == (uuid(0),)
    choice.chips[uuid(2)].click()
    with qtbot.waitSignal(choice.changed):
        choice.suggest_button.click()
    assert choice.devices() == (uuid(1), uuid(3))


def test_with_none_ticked_all_that_are_empty_are_suggested(choice: DeviceChoice) -> None:
    show(choice, eight_gpus(), workers())
    choice.cpu.click()
    choice.suggest_button.click()
    assert choice.devices() == (ASLEEP, IDLE)
    assert not choice.cpu.isChecked()


def test_fewer_empty_ones_than_wanted_are_said_to_be_fewer(choice: DeviceChoice) -> None:
    show(choice, eight_gpus(), workers())
    for id in (OTHERS, SILENT):
        choice.chips[id].click()
    choice.suggest_button.click()
    assert choice.devices() == (ASLEEP, IDLE)
    assert choice.line.text() == sentence("only-of-gpus-are-unused")


def test_none_is_suggested_where_none_is_empty(choice: DeviceChoice) -> None:
    full = tuple(gpu(k, 50, processes=(process(k + 9, 49),)) for k in range(2))
    show(choice, Snapshot(time=0.0, devices=full))
    before = choice.devices()
    choice.suggest_button.click()
    assert choice.devices() == before
    assert "in use" in choice.line.text()


def test_a_divided_gpu_is_chosen_by_its_slices(choice: DeviceChoice) -> None:
    show(choice, eight_gpus(), workers())
    assert not choice.chips[MIG].isEnabled()
    assert "choose one of its slices" in choice.chips[MIG].toolTip()
    assert MIG not in choice.known_gpus
    assert {"MIG-a", "MIG-b", "MIG-c"} <= choice.known_gpus
    choice.chips[ASLEEP].click()
    choice.chips["MIG-a"].click()
    assert choice.devices() == ("MIG-a",)
    assert choice.warning == ""
    choice.chips["MIG-b"].click()
    assert "one slice only" in choice.warning


def test_a_lost_gpu_comes_back_without_a_restart(choice: DeviceChoice, qtbot: QtBot) -> None:
    show(choice, eight_gpus(), workers())
    assert LOST not in choice.known_gpus
    assert "(lost)" in choice.chips[LOST].accessibleName()
    devices = tuple(gpu(2) if each.id == LOST else each for each in eight_gpus().devices)
    with qtbot.waitSignal(choice.changed):
        show(choice, msgspec.structs.replace(eight_gpus(), devices=devices))
    assert LOST in choice.known_gpus
    assert "(lost)" not in choice.chips[LOST].accessibleName()


def test_the_links_are_a_click_away_where_there_are_any(choice: DeviceChoice, qtbot: QtBot) -> None:
    show(choice, linked(gpus=1))
    assert not choice.links_button.isVisible()
    assert choice.suggest_button.isHidden()
    show(choice, linked((0, 1)))
    assert not choice.suggest_button.isHidden()
    assert choice.suggest_button.text() == "Suggest"
    choice.links_button.click()
    [dialog] = choice.findChildren(LinksDialog)
    assert dialog.isVisible()
    dialog.close()


def test_texts_of_the_system_are_no_markup_and_no_shortcuts(choice: DeviceChoice) -> None:
    odd = gpu(0, 30, name="A&B <i>", processes=(process(1, 29, name="<b>&x"),))
    choice.resize(600, 200)
    show(choice, Snapshot(time=0.0, devices=(odd,)))
    assert choice.chips[uuid(0)].shortcut().isEmpty()
    assert "<i>" not in choice.chips[uuid(0)].toolTip()
    assert choice.chips[uuid(0)].note.startswith(sentence("warns-of-guest-with-markup"))


def test_the_line_says_what_matters_most_and_its_tooltip_the_rest(choice: DeviceChoice) -> None:
    show(choice, eight_gpus(), workers())
    assert choice.line.text() == "H100 80GB HBM3"
    choice.chips[IDLE].click()
    assert choice.line.text() == "2 × H100 80GB HBM3"
    choice.set_overlap("The run will queue behind run 7 on GPU 5.")
    assert choice.line.text() == "The run will queue behind run 7 on GPU 5."
    choice.chips[OTHERS].click()
    assert choice.line.text() == sentence("gpu-in-use-by-python")
    assert "queue behind run 7" in choice.warning


def test_a_busy_chip_is_described_as_such(choice: DeviceChoice) -> None:
    busy = gpu(1, 30, processes=(process(4242, 29),))
    show(choice, Snapshot(time=1.0, devices=(gpu(0), busy)))
    said = choice.chips[uuid(1)].accessibleDescription().splitlines()[-1]
    assert said.startswith(sentence("warns-of-guest-without-memory"))


def test_the_workers_are_asked_for_only_on_the_cpu(choice: DeviceChoice) -> None:
    show(choice, Snapshot(time=0.0, devices=(gpu(0), cpu())))
    [workers] = choice.findChildren(WorkerSpinBox)
    assert not workers.isVisible()
    choice.cpu.click()
    assert workers.isVisible()
    workers.setValue(3)
    assert workers.text() == "3 workers"
    assert choice.devices() == ("cpu:0", "cpu:1", "cpu:2")
    assert choice.line.text() == "AMD EPYC 9354"
