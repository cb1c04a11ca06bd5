"""Two rows of a form for a new file or folder of this machine: where it will be, and its name."""

from __future__ import annotations

import os
from collections.abc import Callable

from PySide6.QtWidgets import QFileDialog, QFormLayout, QLineEdit, QPushButton, QWidget

from gui.exchange.work_dialog import path_row


class TargetRows:
    """The name is proposed until the user writes another one."""

    def __init__(
        self,
        form: QFormLayout,
        folder: str,
        propose: Callable[[str], str],
        title: str,
        parent: QWidget,
    ) -> None:
        """Add the rows to `form`. `propose` returns a name that is free in a folder; `title`: of
        the dialog that chooses the folder."""
        self._propose = propose
        self._title = title
        self._parent = parent
        self._proposed = ""
        self.folder = QLineEdit(folder)
        self.folder.setAccessibleName("Folder")
        self.name = QLineEdit()
        self.name.setAccessibleName("Name")
        choose = QPushButton("Choose…")
        choose.clicked.connect(self._choose)
        form.addRow("F&older", path_row(self.folder, choose))
        form.addRow("&Name", self.name)
        self.folder.editingFinished.connect(self.propose)

    def path(self) -> str:
        """Return the path of the new file or folder."""
        return os.path.join(self.folder.text().strip(), self.name.text().strip())  # noqa: PTH118

    def problem(self) -> str:
        """Return why there can be no new file or folder of this name, in a sentence."""
        name = self.name.text().strip()
        if name in ("", ".", "..") or {"/", os.sep} & set(name):
            return f"“{name}” is no name of a file or folder."
        return ""

    def propose(self) -> None:
        """Name it, unless the user has named it."""
        if self.name.text() in ("", self._proposed):
            self._proposed = self._propose(self.folder.text().strip())
            self.name.setText(self._proposed)

    def _choose(self) -> None:
        folder = QFileDialog.getExistingDirectory(self._parent, self._title, self.folder.text())
        if folder:
            self.folder.setText(folder)
            self.propose()
