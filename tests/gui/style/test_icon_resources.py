"""Icons in the memory of Qt."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QFile, QIODevice, QSize
from PySide6.QtGui import QIcon

from gui.style.icon_resources import add_icon

SQUARE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><path fill="{}" d="M0 0h8v8H0z"/>'
    "</svg>"
)


@pytest.mark.parametrize("colour", ["#ff0000", "#0000ff"])
def test_an_icon_is_a_file_of_qt(qapp: object, colour: str) -> None:
    content = SQUARE.format(colour)
    path = add_icon(f"square-of-a-test-{colour[1:]}.svg", content)
    file = QFile(path)
    assert file.open(QIODevice.OpenModeFlag.ReadOnly)
    assert bytes(file.readAll().data()).decode() == content
    file.close()
    picture = QIcon(path).pixmap(QSize(8, 8)).toImage()
    assert picture.pixelColor(4, 4).name() == colour


def test_a_name_is_added_once(qapp: object) -> None:
    path = add_icon("once.svg", SQUARE.format("#ffffff"))
    assert add_icon("once.svg", SQUARE.format("#ffffff")) == path == ":/icons/once.svg"
