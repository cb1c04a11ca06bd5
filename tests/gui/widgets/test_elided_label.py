"""What is left of a text that does not fit."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from gui.widgets.elided_label import ElidedLabel

SWEEP = "vision-transformer-base-patch16-imagenet-seed-{seed}"


@pytest.mark.parametrize("mode", [Qt.TextElideMode.ElideMiddle, Qt.TextElideMode.ElideRight])
def test_in_the_middle_the_ends_that_differ_are_seen(qtbot: QtBot, mode: Qt.TextElideMode) -> None:
    label = ElidedLabel(mode)
    qtbot.addWidget(label)
    label.resize(120, 20)

    def picture(seed: int) -> QImage:
        label.setText(SWEEP.format(seed=seed))
        return label.grab().toImage()

    assert (picture(1) != picture(2)) == (mode is Qt.TextElideMode.ElideMiddle)
