"""The language of the window: every text goes through Qt, which may have a translation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6 import QtCore
from PySide6.QtCore import QCoreApplication, QLocale, QTranslator

from gui.style.theme import RESOURCES

FOLDER = RESOURCES / "translations"
"""Contains `traindeck_<locale>.qm`, such as `traindeck_de.qm`."""

translate = QCoreApplication.translate
"""`translate("Context", "Text")`, for code without a QObject's `tr`. Both arguments must be
literals: `pyside6-lupdate` collects them from the source."""

QT_TRANSLATE_NOOP: Callable[[str, str], str] = QtCore.QT_TRANSLATE_NOOP  # type: ignore[assignment]
"""Marks a text that is created at import time, before the language is known, and translated
later."""


def install_translation(
    app: QCoreApplication, locale: QLocale | None = None, folder: Path = FOLDER
) -> bool:
    """Use the language of `locale` (default: the system's) if there is a file for it. Return
    whether there is."""
    translator = QTranslator(app)
    found = translator.load(locale or QLocale.system(), "traindeck", "_", str(folder))
    return found and app.installTranslator(translator)
