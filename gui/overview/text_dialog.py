"""Dialogs of the overview: a long text such as a diff, and the list of packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QSortFilterProxyModel, Qt
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QGuiApplication,
    QStandardItem,
    QStandardItemModel,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextDocument,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from gui.style.theme import Theme, theme_of
from gui.widgets.boxes import column_of
from gui.widgets.plain_text import Label

_SIZE = (860, 620)
_SMALL = (520, 560)


class TextDialog(QDialog):
    """Shows a text that can be copied; with `is_diff`, in the colours of a diff."""

    def __init__(
        self, title: str, text: str, note: str, parent: QWidget, *, is_diff: bool = False
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        _fit(self, *_SIZE)
        self.view = QPlainTextEdit()
        self.view.setReadOnly(True)
        self.view.setAccessibleName(title)
        self.view.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.view.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.view.setPlainText(text)
        if is_diff:
            self._colours = DiffColours(self.view.document(), theme_of(QGuiApplication.palette()))
        layout = QVBoxLayout(self)
        if note:
            label = Label(note, objectName="note", wordWrap=True)
            layout.addWidget(label)
        layout.addWidget(self.view)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(text))
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)


class DiffColours(QSyntaxHighlighter):
    """Colours the lines of a diff."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        """Colour one line."""
        theme = self._theme
        colour = ""
        if text.startswith(("diff --git", "index ", "--- ", "+++ ", "new file", "deleted file")):
            colour = theme.muted
        elif text.startswith("@@"):
            colour = theme.accent
        elif text.startswith("+"):
            colour = theme.ok
        elif text.startswith("-"):
            colour = theme.bad
        if colour:
            look = QTextCharFormat()
            look.setForeground(QColor(colour))
            self.setFormat(0, len(text), look)


class PackagesDialog(QDialog):
    """All packages with a search; those that differ from another run are marked."""

    def __init__(
        self,
        packages: Mapping[str, str],
        differing: Sequence[tuple[str, str, str]],
        other: str,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Packages")
        _fit(self, *_SMALL)
        titles = ["Package", "Version"]
        if other:
            titles.append(f"In {other}")
        was = {name: before for name, _, before in differing}
        self._model = QStandardItemModel(0, len(titles), self)
        self._model.setHorizontalHeaderLabels(titles)
        warn = QColor(theme_of(QGuiApplication.palette()).warn)
        for name in sorted({*packages, *was}):
            texts = [name, packages.get(name, "–")]
            if other:
                texts.append((was[name] or "–") if name in was else "")
            items = [QStandardItem(text) for text in texts]
            for item in items:
                item.setEditable(False)
                item.setData(name in was, _DIFFERS)
                if name in was:
                    item.setForeground(warn)
            self._model.appendRow(items)
        self._filtered = _PackageFilter(self)
        self._filtered.setSourceModel(self._model)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Find a package…")
        self.search.setAccessibleName("Search of a package")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filtered.set_text)
        self.only = QCheckBox(f"Only what differs from {other}")
        self.only.setVisible(bool(other))
        self.only.setEnabled(bool(was))
        self.only.toggled.connect(self._filtered.set_only_differing)
        self.table = QTreeView()
        self.table.setModel(self._filtered)
        self.table.setRootIsDecorated(False)
        self.table.setUniformRowHeights(True)
        self.table.setAccessibleName("Packages")
        self.table.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        copy.setToolTip("As lines of a requirements file")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(requirements(packages)))
        buttons.rejected.connect(self.reject)
        column_of(self.search, self.only, self.table, buttons, parent=self)


_DIFFERS = Qt.ItemDataRole.UserRole + 1


class _PackageFilter(QSortFilterProxyModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._text, self._only = "", False

    def set_text(self, text: str) -> None:
        self._text = text.casefold()
        self.invalidate()

    def set_only_differing(self, only: bool) -> None:
        self._only = only
        self.invalidate()

    def filterAcceptsRow(self, row: int, parent: object) -> bool:
        """Whether the row has the text, and differs if that is asked for."""
        model = self.sourceModel()
        index = model.index(row, 0)
        if self._only and not index.data(_DIFFERS):
            return False
        return self._text in str(index.data()).casefold()


def requirements(packages: Mapping[str, str]) -> str:
    """Return the packages as a requirements file."""
    return "\n".join(f"{name}=={version}" for name, version in sorted(packages.items()))


def _fit(dialog: QDialog, width: int, height: int) -> None:
    """Give it a size that fits into the screen."""
    screen = dialog.screen().availableSize()
    dialog.resize(min(width, screen.width() - 40), min(height, screen.height() - 80))
