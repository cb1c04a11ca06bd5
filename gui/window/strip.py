"""The strip along the top of the window: menu, pages, and the watched run with its buttons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QEvent, QPoint, QPointF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QFrame, QMenu, QToolButton, QWidget

from gui.style.theme import icon, theme_of
from gui.widgets.boxes import row_of
from gui.widgets.plain_text import plain_tip
from gui.widgets.steady_button import let_go_of_menu
from gui.window.pages import PAGES, PageName, tip_of

_HEIGHT = 44
_ICON = QSize(18, 18)
_DOT = 3.0
_LEAST_PAGE = 25
"""Logical pixels: the width of the button of a page with an icon, where there is little room."""

_SHOWN_NAMES, _SHOWN_NAME = 1500, 800
"""Widths from which on all pages have their names, and from which on the shown one has it, in
logical pixels. Otherwise they have icons, because the run needs the room."""


class WindowStrip(QFrame):
    """Takes the room of one line, instead of a menu bar and a toolbar."""

    page_chosen = Signal(str)
    """The user wants this page: a PageName."""

    def __init__(self, menus: Sequence[QMenu], controls: QWidget) -> None:
        """`menus` have titles with a mnemonic; `controls` show the watched run."""
        super().__init__()
        self.setObjectName("strip")
        self.setFixedHeight(_HEIGHT)
        self.menu_button = MenuButton(menus)
        self.pages = {name: self._page(name) for name, page in PAGES.items() if not page.within}
        segments = QFrame()
        segments.setObjectName("segments")
        row_of(*self.pages.values(), parent=segments, margins=(2, 2, 2, 2), spacing=2)
        row_of(
            self.menu_button,
            (segments, 0, Qt.AlignmentFlag.AlignVCenter),
            (controls, 1),
            parent=self,
            margins=(8, 0, 4, 0),
            spacing=6,
        )
        self._draw_icons()
        self._choose_style()

    def minimumSizeHint(self) -> QSize:
        """The width with icons in the place of the pages' names, close to each other."""
        least = super().minimumSizeHint()
        spare = sum(max(0, each.sizeHint().width() - _LEAST_PAGE) for each in self.pages.values())
        return QSize(least.width() - spare, least.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show icons in the place of the pages' names where the run needs the room."""
        super().resizeEvent(event)
        self._choose_style()

    def event(self, event: QEvent) -> bool:
        """Follow the theme."""
        if event.type() is QEvent.Type.PaletteChange:
            self._draw_icons()
        return super().event(event)

    def _choose_style(self) -> None:
        for button in self.pages.values():
            is_small = self.width() < (_SHOWN_NAME if button.isChecked() else _SHOWN_NAMES)
            room = "tight" if self.width() < _SHOWN_NAME else "icon" if is_small else "name"
            if room != button.property("room"):
                button.setProperty("room", room)
                style = Qt.ToolButtonStyle
                icons, texts = style.ToolButtonIconOnly, style.ToolButtonTextOnly
                button.setToolButtonStyle(icons if is_small else texts)
                button.style().unpolish(button)
                button.style().polish(button)
                button.updateGeometry()

    def _draw_icons(self) -> None:
        theme = theme_of(QGuiApplication.palette())
        for page, button in self.pages.items():
            button.setIcon(icon(PAGES[page].icon, theme))

    def show_page(self, page: PageName) -> None:
        """Mark `page` as the one that is shown."""
        self.pages[PAGES[page].within or page].setChecked(True)
        self._choose_style()

    def show_race(self, progress: str, machine: str = "") -> None:
        """Say on every page that a race is measured, how far it is (empty: none is), and on which
        other machine."""
        name, tip = PAGES["race"].title, tip_of("race")
        button = self.pages["race"]
        text = " ".join(filter(None, (name, machine, progress))) if progress else name
        if text == button.text():
            return
        button.setText(text)
        button.set_busy(bool(progress))
        running = f"A race is measured: {progress}"
        if machine:
            running = f"A race is measured on {machine}: {progress}"
        tip = f"{running}\n{tip}" if progress else tip
        button.setToolTip(plain_tip(tip))
        button.setAccessibleName(f"Page: {text}")

    def _page(self, page: PageName) -> PageButton:
        text = PAGES[page].title
        button = PageButton()
        button.setObjectName("page")
        button.setText(text)
        button.setToolTip(plain_tip(tip_of(page)))
        button.setAccessibleName(f"Page: {text}")
        button.setCheckable(True)
        button.setAutoExclusive(True)
        button.clicked.connect(partial(self.page_chosen.emit, page))
        return button


class PageButton(QToolButton):
    """Shows a page; a dot says that something is measured for it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_busy = False

    def set_busy(self, busy: bool) -> None:
        """Show the dot, or remove it."""
        self._is_busy = busy
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the dot in the corner."""
        super().paintEvent(event)
        if self._is_busy:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme_of(QGuiApplication.palette()).ok))
            painter.drawEllipse(QPointF(self.width() - 6.0, 6.0), _DOT, _DOT)


class MenuButton(QToolButton):
    """Opens the whole menu; F10 and Alt do so too, and Alt with a letter opens one part of it."""

    def __init__(self, menus: Sequence[QMenu]) -> None:
        super().__init__()
        self.setObjectName("menu")
        name = "Menu"
        self.setAccessibleName(name)
        self.setToolTip(plain_tip("Menu (F10, or Alt)"))
        self.setIconSize(_ICON)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        whole = QMenu(name, self)
        self.setMenu(whole)
        let_go_of_menu(self)
        for menu in menus:
            whole.addMenu(menu)
            for key in _mnemonic(menu.title()):
                shortcut = QShortcut(QKeySequence(f"Alt+{key}"), self)
                shortcut.activated.connect(partial(self.open, menu))
        QShortcut(QKeySequence("F10"), self).activated.connect(lambda: self.open())
        self._draw_icon()

    def open(self, part: QMenu | None = None) -> None:
        """Open the whole menu, or `part` of it with its first entry chosen, below the button."""
        menu = part or self.menu()
        menu.popup(self.mapToGlobal(QPoint(0, self.height())))
        if part is not None and (entries := [each for each in part.actions() if each.isEnabled()]):
            part.setActiveAction(entries[0])

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._draw_icon()

    def _draw_icon(self) -> None:
        self.setIcon(icon("list", theme_of(QGuiApplication.palette()).text))


class LoneAlt:
    """Finds out whether Alt was pressed and let go without any other key in between."""

    def __init__(self) -> None:
        self._is_down = False

    def heard(self, event: QEvent) -> bool:
        """Whether `event` of the window ends a press of Alt alone."""
        match event.type():
            case QEvent.Type.ShortcutOverride:
                self._is_down = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Alt
            case QEvent.Type.WindowDeactivate | QEvent.Type.MouseButtonPress | QEvent.Type.Wheel:
                self._is_down = False
            case QEvent.Type.KeyRelease:
                was_down, self._is_down = self._is_down, False
                is_alt = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Alt
                return was_down and is_alt
        return False


def _mnemonic(title: str) -> str:
    """Return the letter after the `&` of `title`; empty if there is none."""
    return title.partition("&")[2][:1].upper()
