"""Asks where to save a file; what exists is replaced only after a question."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget


def ask_where_to_save(parent: QWidget, title: str, proposed: str, filter: str) -> str:
    """The path that the user chose, with the ending of `proposed`; empty: none."""
    ending = Path(proposed).suffix
    while True:
        dialog = QFileDialog(parent, title, "", filter)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(ending)
        dialog.selectFile(proposed)
        agreed = dialog.exec()
        chosen = dialog.selectedFiles()
        dialog.deleteLater()
        if not agreed or not chosen:
            return ""
        if chosen[0].endswith(ending):
            return chosen[0]
        # To a name with another dot in it, Qt adds no ending, and has asked about no such file.
        proposed = chosen[0] + ending
        if not Path(proposed).exists():
            return proposed
