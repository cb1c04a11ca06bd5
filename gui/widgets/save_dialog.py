"""Asks where to save a file; asks again before it replaces one."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget


def ask_where_to_save(parent: QWidget, title: str, proposed: str, filter: str) -> str:
    """Return the path that the user chose, with the suffix of `proposed`; empty: cancelled."""
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
        # Qt adds no suffix to a name that has another dot, and has not asked about the file with
        # the suffix.
        proposed = chosen[0] + ending
        if not Path(proposed).exists():
            return proposed
