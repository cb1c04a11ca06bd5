"""What lies below the strip: the left column or its rail, and the page beside it."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QFrame, QSizePolicy, QWidget

from gui.style.theme import theme_of
from gui.window.pages import PAGES, PageName
from gui.window.rail import WIDTH as RAIL_WIDTH
from gui.window.tab_order import first_tab_stop

DEFAULT_WIDTH, MIN_WIDTH, MAX_WIDTH = 316, 280, 560
"""Of the left column, in logical pixels."""

NARROW = 1100
"""A narrower window has the rail, whatever was chosen: the page needs the room."""

FOLDED: Mapping[PageName, bool] = {name: page.folds for name, page in PAGES.items()}
"""On which pages the rail stands in the place of the left column at first."""

_HANDLE = 8
_KEY_STEP = 16
_FOLD_AT = MIN_WIDTH * 2 // 3
"""A column that is dragged to less folds."""


class Body(QWidget):
    """Places its parts by hand, because the column lies beside the page or over it."""

    def __init__(self, column: QWidget, rail: QWidget, page: QWidget) -> None:
        super().__init__()
        self._column, self._rail, self._page = column, rail, page
        self._folded = dict(FOLDED)
        self._page_name: PageName = "run"
        self._is_over = False
        self._width = DEFAULT_WIDTH
        self._veil = _Veil(self)
        self._drawer = _Drawer(self)
        self.handle = _Handle(self)
        for part in (rail, page, self.handle, self._veil, self._drawer):
            part.setParent(self)
        column.setParent(self._drawer)
        self._veil.hide()
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_moved)

    @property
    def column_width(self) -> int:
        """The width of the column in logical pixels, also while it is folded."""
        return self._width

    @property
    def folded_pages(self) -> dict[PageName, bool]:
        """On which pages the user wants the rail, however wide the window is."""
        return dict(self._folded)

    @property
    def is_folded(self) -> bool:
        """Whether the rail stands in the place of the column."""
        return self._folded[self._page_name] or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """Whether there is no room for the column beside the page."""
        return self.width() < NARROW

    @property
    def is_open_over(self) -> bool:
        """Whether the column lies over the page."""
        return self._is_over

    def set_column_width(self, width: int) -> None:
        """Set the width of the column, within its limits."""
        self._width = max(MIN_WIDTH, min(width, MAX_WIDTH))
        self._place()

    def set_folded_pages(self, folded: Mapping[PageName, bool]) -> None:
        """Choose the rail or the column for each page; a narrow window has the rail."""
        self._folded.update(folded)
        self.set_page(self._page_name)

    def set_page(self, page: PageName) -> None:
        """Place the column as it was chosen for `page`, which is shown now."""
        self._page_name, self._is_over = page, False
        self._place()

    def fold(self, folded: bool) -> None:
        """Choose the rail or the column for the shown page; the keyboard focus goes along.

        In a narrow window, the column opens over the page, or closes.
        """
        if self.is_narrow:
            self.close_over() if folded else self.show_over(self._column)
            return
        gone = self._column if folded else self._rail
        had_focus = self._has_focus(gone) or self.handle.hasFocus()
        self.set_folded_pages({self._page_name: folded})
        if had_focus:
            _focus_first(self._rail if folded else self._column)

    def show_over(self, part: QWidget) -> None:
        """Make `part` of the column visible and focus it: the folded column opens over the page."""
        if self.is_folded:
            self._is_over = True
            self._place()
        _focus_first(part)

    def close_over(self) -> None:
        """Close the column that lies over the page."""
        if not self._is_over:
            return
        had_focus = self._has_focus(self._column)
        self._is_over = False
        self._place()
        if had_focus:
            _focus_first(self._rail)

    def drag_to(self, width: int) -> None:
        """Give the column `width` pixels; fold it where that is far too few."""
        if width < _FOLD_AT:
            self.fold(True)
        else:
            self.set_column_width(min(width, self._room()))

    def minimumSizeHint(self) -> QSize:
        """The rail and the page."""
        page = self._page.minimumSizeHint()
        return QSize(RAIL_WIDTH + page.width(), page.height())

    def sizeHint(self) -> QSize:
        """The column and the page."""
        page = self._page.sizeHint()
        return QSize(self._width + page.width(), page.height())

    def event(self, event: QEvent) -> bool:
        """Tell the window when the least size of the page has changed."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fold the column while the window is narrow."""
        super().resizeEvent(event)
        self._is_over = self._is_over and self.is_folded
        self._place()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc closes the column that lies over the page."""
        if event.key() == Qt.Key.Key_Escape and self._is_over:
            self.close_over()
        else:
            super().keyPressEvent(event)

    def _place(self) -> None:
        folded, whole = self.is_folded, self.rect()
        width = self._width if folded else max(MIN_WIDTH, min(self._width, self._room()))
        beside = RAIL_WIDTH if folded else width + _HANDLE
        self._rail.setVisible(folded)
        self.handle.setVisible(not folded)
        self._drawer.setVisible(not folded or self._is_over)
        self._drawer.set_over(folded)
        self._veil.setVisible(self._is_over)
        self._rail.setGeometry(0, 0, RAIL_WIDTH, whole.height())
        left = RAIL_WIDTH if folded else 0
        self._drawer.setGeometry(left, 0, width, whole.height())
        self._column.setGeometry(self._drawer.rect())
        self.handle.setGeometry(width, 0, _HANDLE, whole.height())
        page = QRect(beside, 0, whole.width() - beside, whole.height())
        self._page.setGeometry(page)
        if self._is_over:
            self._veil.setGeometry(page)
            self._veil.raise_()
            self._drawer.raise_()

    def _room(self) -> int:
        """The width that the page can give to the column."""
        return self.width() - self._page.minimumSizeHint().width() - _HANDLE

    def _has_focus(self, part: QWidget) -> bool:
        focused = QApplication.focusWidget()
        return focused is not None and part.isAncestorOf(focused)

    def _focus_moved(self, _before: QWidget | None, now: QWidget | None) -> None:
        """Close the column over the page when the user goes on in the page."""
        if self._is_over and now is not None and self._page.isAncestorOf(now):
            self._is_over = False
            self._place()


class _Drawer(QFrame):
    """Holds the column, and paints a ground for it where it lies over the page."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("drawer")
        self.setProperty("over", False)

    def set_over(self, over: bool) -> None:
        if over != self.property("over"):
            self.setProperty("over", over)
            self.style().unpolish(self)
            self.style().polish(self)


class _Veil(QWidget):
    """Covers the page while the column lies over it; a click closes the column."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._body = body

    def paintEvent(self, event: QPaintEvent) -> None:
        """Darken the page a little."""
        QPainter(self).fillRect(self.rect(), QColor(0, 0, 0, 90))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Close the column."""
        self._body.close_over()


class _Handle(QWidget):
    """The edge of the column, which can be dragged."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._body = body
        self._pressed_at: tuple[int, int] | None = None
        self.setCursor(Qt.CursorShape.SplitHCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Ignored)
        self.setAccessibleName("Width of the left column")
        self.setToolTip("Drag, or the arrow keys: width. Double click, or Return: fold (Ctrl+B).")
        self.setAccessibleDescription(self.toolTip())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a grip in the middle, brighter with the pointer or the focus on it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = theme_of(self.palette())
        is_live = self.hasFocus() or self.underMouse()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.accent if is_live else theme.other))
        middle = self.rect().center()
        painter.drawRoundedRect(QRect(middle - QPoint(1, 16), QSize(3, 32)), 1.5, 1.5)

    def enterEvent(self, event: QEvent) -> None:
        self.update()

    def leaveEvent(self, event: QEvent) -> None:
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin to drag."""
        if event.button() is Qt.MouseButton.LeftButton:
            x = round(event.globalPosition().x())
            self._pressed_at = (x, self._body.column_width)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag the edge."""
        if self._pressed_at is not None:
            x, width = self._pressed_at
            self._body.drag_to(width + round(event.globalPosition().x()) - x)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the drag."""
        self._pressed_at = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Fold the column."""
        self._pressed_at = None
        self._body.fold(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and Right change the width, Return folds."""
        match event.key():
            case Qt.Key.Key_Left:
                self._body.drag_to(self._body.column_width - _KEY_STEP)
            case Qt.Key.Key_Right:
                self._body.drag_to(self._body.column_width + _KEY_STEP)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter | Qt.Key.Key_Space:
                self._body.fold(True)
            case _:
                super().keyPressEvent(event)


def _focus_first(part: QWidget) -> None:
    if stop := first_tab_stop(part):
        stop.setFocus(Qt.FocusReason.ShortcutFocusReason)
