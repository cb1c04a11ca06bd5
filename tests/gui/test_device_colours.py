"""A device has the same number and the same colour everywhere in the window."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
from PySide6.QtCore import QSize
from PySide6.QtGui import QIcon

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.style.device_labels import device_labels
from tests.gui.conftest import OpenApp
from tests.gui.stored_points import stored_points
from tests.support.device_states import cpu, eight_gpus, gpu, uuid
from tests.support.pixels import colours

STEPS = np.arange(10.0)
SERIES = ("utilisation", "memory", "temperature", "power")


def test_a_gpu_has_one_colour_and_one_number(open_app: OpenApp) -> None:
    app = open_app()
    theme = app.theme.current
    devices = [*(gpu(each, utilisation=90.0) for each in range(8) if each != 4), cpu()]
    app.telemetry.snapshot.emit(Snapshot(time=1.0, devices=tuple(devices)))
    for number, series in product((0, 5), SERIES):
        app.rooms.run.plots.add_points(
            f"device/{uuid(number)}/{series}", stored_points(STEPS, STEPS * 1e9)
        )
    for number in (0, 5):
        device, colour, name = uuid(number), theme.curve(number), f"GPU {number}"
        app.devices.open_detail(device)
        assert colour in colours(app.devices.row(device).grab().toImage())
        assert app.devices.row(device).accessibleName().startswith(name)
        chip = app.form.devices.chips[device]
        chip.setChecked(True)
        assert colour in colours(chip.grab().toImage())
        assert chip.accessibleName().startswith(name)
        app.devices.detail.close()
        for plot in app.rooms.run.plots.plots()[1:5]:
            curve, entry = plot.curves[device], plot.legend.chip(device)
            assert (curve.label, curve.colour_index, entry.text()) == (name, number, name)
            dot = entry.icon().pixmap(QSize(8, 8), QIcon.Mode.Normal, QIcon.State.On).toImage()
            assert dot.pixelColor(4, 4).name() == colour
            assert {each.name: each.label for each in plot.readings(5.0)[1]}[device] == name


def test_a_lost_gpu_changes_no_other_colour() -> None:
    whole = eight_gpus()
    assert whole.devices[-1].kind == "cpu", "as the sampler lists them"
    rest = tuple(each for each in whole.devices if each.id != uuid(2))
    labels = device_labels(whole)
    assert device_labels(msgspec.structs.replace(whole, devices=rest)) == {
        id: label for id, label in labels.items() if id != uuid(2)
    }


def test_the_cpu_has_the_first_colour_only_without_gpus() -> None:
    def index(*devices: DeviceSnapshot) -> int:
        return device_labels(Snapshot(time=1.0, devices=devices))["cpu"].colour_index

    assert index(cpu()) == 0
    assert index(gpu(0), gpu(1), cpu()) == 2
