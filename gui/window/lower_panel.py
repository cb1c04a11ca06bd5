"""The lower panel: log, events and media in tabs. It folds to one line and can fill the page."""

from __future__ import annotations

import re
from functools import partial
from typing import Literal, get_args

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QToolButton,
    QWidget,
)

from gui.style.theme import monospace_font
from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.icon_button import IconButton
from gui.widgets.plain_text import plain_tip, set_wrapped_tip

Fold = Literal["folded", "open", "full"]
"""One line, a part of the page, or all of it."""

HEIGHT = 260
"""Of the open panel at first, in logical pixels: a row of pictures, for whichever tab is open. The
tabs do not move when the user goes from one to the other."""

_MIN_HEIGHT = 96
_LINE = 34
TALL = 900
"""A page of this height has room for the open panel, unless the user has chosen something."""

_GAPS = re.compile(r"\s{2,}")


class LowerPanel(QFrame):
    """Tabs with a bar each; only the bar of the open tab is shown."""

    fold_wanted = Signal(str)
    """The user wants this Fold."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")
        self.tabs = QTabBar()
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setAccessibleName("Tabs of the lower panel")
        self.pages = QStackedWidget()
        self._bars = QStackedWidget()
        self._bars.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.line = ElidedLabel(objectName="lastline")
        self.line.setFont(monospace_font())
        self.warnings = QToolButton()
        self.warnings.setObjectName("warnings")
        self.warnings.hide()
        self.fill = IconButton("corners-out", "", "")
        self.fold_button = IconButton("caret-up", "", "")
        self._fold: Fold = "open"
        self._lay_out()
        self.tabs.currentChanged.connect(self._show_tab)
        self.tabs.tabBarClicked.connect(self._unfold)
        self.tabs.tabBarDoubleClicked.connect(lambda _: self._fill_clicked())
        self.warnings.clicked.connect(partial(self._want, "open"))
        self.fill.clicked.connect(self._fill_clicked)
        self.fold_button.clicked.connect(self._fold_clicked)
        self.show_fold("open")

    @property
    def fold(self) -> Fold:
        """How much of it is shown."""
        return self._fold

    @property
    def page(self) -> QWidget | None:
        """The page of the open tab."""
        return self.pages.currentWidget()

    def add(self, page: QWidget, title: str, bar: QWidget | None = None) -> None:
        """Add a tab; `page` has an object name. A bar may serve several tabs."""
        self.pages.addWidget(page)
        page.setProperty("bar", bar)
        if bar is not None and self._bars.indexOf(bar) < 0:
            self._bars.addWidget(bar)
        self.tabs.addTab(title)
        self._show_tab(self.tabs.currentIndex())

    def show_page(self, page: QWidget) -> None:
        """Bring the tab of `page` to the front; this does not unfold the panel."""
        self.tabs.setCurrentIndex(self.pages.indexOf(page))

    def page_names(self) -> list[str]:
        """Return the object names of the pages, in the order of their tabs."""
        pages = (self.pages.widget(place) for place in range(self.pages.count()))
        return [page.objectName() for page in pages if page is not None]

    def show_line(self, text: str) -> None:
        """Show the newest line of the log where the panel is folded."""
        self.line.setText(_GAPS.sub("  ", text.strip()))
        set_wrapped_tip(self.line, self.line.text())

    def show_warnings(self, warnings: int, errors: int) -> None:
        """Show how many warnings and errors the run has had."""
        count = warnings + errors
        self.warnings.setText(f"▲ {count:,}" if count else "")
        text = f"Warnings: {warnings:,} · errors: {errors:,}"
        self.warnings.setAccessibleName(text)
        self.warnings.setToolTip(plain_tip(text))
        self.warnings.setProperty("tone", "bad" if errors else "warning")
        self.warnings.style().polish(self.warnings)
        self.warnings.setVisible(count > 0 and self._fold == "folded")

    def show_fold(self, fold: Fold) -> None:
        """Show one line, or the whole panel; what lies around it is not the panel's."""
        self._fold = fold
        is_folded = fold == "folded"
        self.pages.setVisible(not is_folded)
        self._show_bar()
        self.line.setVisible(is_folded)
        self.warnings.setVisible(is_folded and bool(self.warnings.text()))
        self.setMinimumHeight(_LINE if is_folded else _MIN_HEIGHT)
        self.setMaximumHeight(_LINE if is_folded else 16_777_215)
        self.fold_button.set_picture("caret-up" if is_folded else "caret-down")
        self._name(self.fold_button, "Unfold" if is_folded else "Fold", "Ctrl+J")
        is_full = fold == "full"
        self.fill.set_picture("corners-in" if is_full else "corners-out")
        self._name(
            self.fill,
            "Restore" if is_full else "Fill the page",
            "Ctrl+Shift+J, or a double click on a tab",
        )

    def _name(self, button: IconButton, text: str, keys: str) -> None:
        tip = f"{text} ({keys})"
        button.setToolTip(plain_tip(tip))
        button.setAccessibleName(f"Lower panel: {text}")

    def _want(self, fold: Fold) -> None:
        self.fold_wanted.emit(fold)

    def _unfold(self, place: int) -> None:
        if place >= 0 and self._fold == "folded":
            self._want("open")

    def _fill_clicked(self) -> None:
        self._want("open" if self._fold == "full" else "full")

    def _fold_clicked(self) -> None:
        self._want("open" if self._fold == "folded" else "folded")

    def _show_tab(self, place: int) -> None:
        self.pages.setCurrentIndex(place)
        self._show_bar()

    def _show_bar(self) -> None:
        bar = self.page.property("bar") if self.page is not None else None
        if isinstance(bar, QWidget):
            self._bars.setCurrentWidget(bar)
            for place in range(self._bars.count()):  # only the open one decides about the width
                each, is_open = self._bars.widget(place), place == self._bars.currentIndex()
                policy = QSizePolicy.Policy.Preferred if is_open else QSizePolicy.Policy.Ignored
                if each is not None:
                    each.setSizePolicy(policy, QSizePolicy.Policy.Fixed)
        self._bars.setVisible(self._fold != "folded" and isinstance(bar, QWidget))
        self._rest.setVisible(self._fold != "folded" and not isinstance(bar, QWidget))

    def _lay_out(self) -> None:
        self._rest = QWidget()
        top = row_of(self.tabs, spacing=6)
        top.addSpacing(6)
        top.addWidget(self.line, 1)
        top.addWidget(self._bars, 1)
        top.addWidget(self._rest, 1)
        for button in (self.warnings, self.fill, self.fold_button):
            top.addWidget(button)
        column_of(top, (self.pages, 1), parent=self, margins=(6, 0, 6, 2), spacing=2)


class RunPage(QWidget):
    """The page of the watched run: what it shows above, and the lower panel."""

    def __init__(self, content: QWidget, panel: LowerPanel) -> None:
        super().__init__()
        self._content, self._panel = content, panel
        self._chosen: Fold | None = None
        self._height = HEIGHT
        self._splitter = QSplitter(Qt.Orientation.Vertical)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setHandleWidth(8)
        content.setMinimumHeight(_MIN_HEIGHT)
        self._splitter.addWidget(content)
        self._splitter.addWidget(panel)
        self._splitter.setStretchFactor(0, 1)
        self._splitter.setStretchFactor(1, 0)
        column_of(self._splitter, parent=self, margins=(4, 8, 8, 6))
        self._splitter.splitterMoved.connect(self._dragged)
        panel.fold_wanted.connect(self.choose)
        self._apply(self._wanted())

    @property
    def chosen(self) -> Fold | None:
        """What the user has chosen; None: nothing yet, so the height of the window decides."""
        return self._chosen

    @property
    def panel_height(self) -> int:
        """The height of the open panel, in logical pixels, also while it is folded."""
        return self._height

    def restore(self, chosen: str | None, height: int) -> None:
        """Apply a saved choice; an unknown one is none."""
        self._chosen = next((fold for fold in get_args(Fold) if fold == chosen), None)
        self._height = max(height, _MIN_HEIGHT)
        self._apply(self._wanted())

    def choose(self, fold: Fold) -> None:
        """Fold, open or enlarge the panel for the user; remember it."""
        self._chosen = fold
        self._apply(fold)

    def unfold(self) -> None:
        """Make the tabs visible, as something in them is wanted."""
        if self._panel.fold == "folded":
            self.choose("open")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Without a choice of the user, decide by the height."""
        super().resizeEvent(event)
        if self._wanted() != self._panel.fold:
            self._apply(self._wanted())

    def _wanted(self) -> Fold:
        if self._chosen is not None:
            return self._chosen
        return "open" if self.height() >= TALL else "folded"

    def _apply(self, fold: Fold) -> None:
        self._panel.show_fold(fold)
        self._content.setVisible(fold != "full")
        self._set_height(self._height if fold == "open" else self._panel.minimumHeight())

    def _set_height(self, height: int) -> None:
        whole = sum(self._splitter.sizes()) or self.height()
        self._splitter.setSizes([max(whole - height, 1), height])

    def _dragged(self) -> None:
        self._height = self._panel.height()
