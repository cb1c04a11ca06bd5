"""Buttons that keep their width when their text changes, so that their neighbours do not move."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QCursor, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QPushButton, QToolButton

from gui.widgets.plain_text import plain_tip

_SETTLE_SECONDS = 1.0
_ICON_GAP = 4
"""Between the icon and the text."""

_PRESSING = (Qt.Key.Key_Space, Qt.Key.Key_Select)


class SteadyButton(QPushButton):
    """As wide as the longest of its texts."""

    def __init__(self, texts: Sequence[str], tip: str) -> None:
        """`texts` are all texts that the button may show, beginning with the first."""
        super().__init__(texts[0])
        self._texts = texts
        self._text = texts[0]
        self._is_compact = False
        self._no_keys_until = self._no_clicks_until = -math.inf
        self._key_released_at = 0
        """Milliseconds of the clock of the window system."""
        self.setToolTip(plain_tip(tip))

    def set_compact(self, compact: bool) -> None:
        """Show the icon alone; a screen reader says the text, and the tooltip what it does."""
        if compact != self._is_compact:
            self._is_compact = compact
            self.setProperty("compact", compact)
            self.style().unpolish(self)
            self.style().polish(self)
            self._show()
            self.updateGeometry()

    def text(self) -> str:
        """Return the text, also where only the icon is shown."""
        return self._text

    def setText(self, text: str) -> None:
        """Show another text."""
        if text != self._text:
            self._text = text
            self._show()

    def let_settle(self, *, keys: bool = False, clicks: bool = False) -> None:
        """Ignore the keys, or the mouse, for a moment: what the user presses now was meant for
        the button that stood here, or for the meaning that this one had."""
        until = time.monotonic() + _SETTLE_SECONDS
        if keys:
            self._no_keys_until = until
        if clicks:
            self._no_clicks_until = until

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Press the button, unless it has just changed, or the key is still held."""
        if event.key() not in _PRESSING:
            super().keyPressEvent(event)
            return
        # X11 repeats a held key as a release and a press of one time, and Qt misses some of them.
        is_repeat = 0 != event.timestamp() == self._key_released_at
        if not is_repeat and time.monotonic() >= self._no_keys_until:
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """Click if the button is pressed."""
        if event.key() in _PRESSING:
            self._key_released_at = event.timestamp()
        super().keyReleaseEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Press the button, unless it has just changed."""
        if time.monotonic() >= self._no_clicks_until:
            super().mousePressEvent(event)

    def full_width(self) -> int:
        """The width with the longest text, also where only the icon is shown."""
        longest = max(self._width(text) for text in (*self._texts, self._text))
        shown = self._width("" if self._is_compact else self._text)
        # Qt forgets the room of an icon that the style sheet gives.
        icon = self.iconSize().width() + _ICON_GAP if self.property("pictured") else 0
        return super().sizeHint().width() + longest - shown + icon

    def sizeHint(self) -> QSize:
        """The size with the longest text, or with the icon."""
        hint = super().sizeHint()
        return hint if self._is_compact else QSize(self.full_width(), hint.height())

    def _show(self) -> None:
        super().setText("" if self._is_compact else self._text)
        self.setAccessibleName(self._text if self._is_compact else "")

    def minimumSizeHint(self) -> QSize:
        """The button never shrinks below its text."""
        return self.sizeHint()

    def _width(self, text: str) -> int:
        """The width that Qt uses for the size hint."""
        return self.fontMetrics().size(Qt.TextFlag.TextShowMnemonic, text).width()


def let_go_of_menu(button: QPushButton | QToolButton) -> None:
    """Let `button` lose the outline of the mouse when its menu closes.

    A click gives it no keyboard focus, which would stay; Tab does. Qt believes that the mouse is
    still over the button if it left while the menu was open.
    """
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def let_go() -> None:
        if not button.rect().contains(button.mapFromGlobal(QCursor.pos())):
            button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
            button.update()

    button.menu().aboutToHide.connect(lambda: QTimer.singleShot(0, button, let_go))


class MoreButton(QToolButton):
    """A narrow button beside another one, whose menu has variants of the same action."""

    def __init__(self, tip: str) -> None:
        super().__init__()
        self.setObjectName("more")
        self.setToolTip(plain_tip(tip))
        self.setAccessibleName(tip)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setIconSize(QSize(12, 12))
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        self.setMenu(menu)
        let_go_of_menu(self)
