"""The widgets in a layout, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtWidgets import QLayout, QWidget


def widgets_in(layout: QLayout, owner: QWidget) -> list[QWidget]:
    """Return the widgets in `layout` and in the layouts in it; `owner` is their parent.

    A layout is never asked for its items (`itemAt`): PySide6 keeps what it returns, Qt deletes an
    item together with its widget, and the next object at that address is then taken for the item.
    The window crashes when that object is deleted.
    """
    children = [child for child in owner.children() if isinstance(child, QWidget)]
    return list(_ordered(layout, children))


def _ordered(layout: QLayout, widgets: Sequence[QWidget]) -> Iterator[QWidget]:
    inner = [each for each in layout.children() if isinstance(each, QLayout)]
    places: list[tuple[int, QWidget | QLayout]] = [
        *((layout.indexOf(widget), widget) for widget in widgets),
        *((layout.indexOf(each), each) for each in inner),
    ]
    for place, part in sorted(places, key=lambda each: each[0]):
        if place < 0:
            continue
        if isinstance(part, QLayout):
            yield from _ordered(part, widgets)
        else:
            yield part
