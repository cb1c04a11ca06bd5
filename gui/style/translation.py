"""The language of the window: every sentence goes through Qt, which may know it in another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6 import QtCore
from PySide6.QtCore import QCoreApplication, QLocale, QTranslator

from gui.style.theme import RESOURCES

FOLDER = RESOURCES / "translations"
"""Holds `traindeck_<locale>.qm`, such as `traindeck_de.qm`."""

translate = QCoreApplication.translate
"""`translate("Context", "Text")`, for what is no QObject and has no `tr`. Both must be literals:
`pyside6-lupdate` collects them by reading the files."""

QT_TRANSLATE_NOOP: Callable[[str, str], str] = QtCore.QT_TRANSLATE_NOOP  # type: ignore[assignment]
"""Only marks a text that is made at import, when no language is known yet, and translated later."""


def install_translation(
    app: QCoreApplication, locale: QLocale | None = None, folder: Path = FOLDER
) -> bool:
    """Speak the language of `locale` (the system's) if there is a file for it; whether there is."""
    translator = QTranslator(app)
    found = translator.load(locale or QLocale.system(), "traindeck", "_", str(folder))
    return found and app.installTranslator(translator)
