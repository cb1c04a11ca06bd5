"""Creates the QApplication, which Qt needs before any window."""

from __future__ import annotations

import gc
import locale
import os
import sys
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QCoreApplication, QLocale, Qt
from PySide6.QtWidgets import QApplication, QMessageBox

from gui.style.theme import application_font, load_fonts
from gui.window.taskbar import DESKTOP_FILE


def has_display(platform: str, environment: Mapping[str, str]) -> bool:
    """Whether Qt will find a display. Without one, Qt would abort the process."""
    if platform != "linux":
        return True
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return any(environment.get(name) for name in names)


def show_refusal(text: str) -> None:
    """Show why the window does not open, until the user closes that; nothing without a display."""
    if not has_display(sys.platform, os.environ):
        return
    qt_app = application(sys.argv[:1])
    box = QMessageBox(QMessageBox.Icon.Critical, qt_app.applicationName(), text)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.exec()


def application(argv: Sequence[str]) -> QApplication:
    """Return the QApplication with the name, font and number format of Traindeck.

    It also stops Python's garbage collection, until `collect_garbage` runs it between two Qt
    events: a widget that is destroyed by another thread, or while Qt holds a lock, would block the
    window.
    """
    gc.disable()
    QLocale.setDefault(QLocale.c())  # 0.001, never 0,001
    qt_app = QApplication(list(argv))
    locale.setlocale(locale.LC_NUMERIC, "C")  # QApplication() has set the user's locale
    qt_app.setApplicationName("Traindeck")
    qt_app.setDesktopFileName(DESKTOP_FILE)
    qt_app.setStyle("Fusion")
    load_fonts()
    qt_app.setFont(application_font())
    return qt_app


def collect_garbage(qt_app: QCoreApplication) -> None:
    """Run Python's garbage collection from a timer, if `application` has stopped it."""
    if gc.isenabled() or qt_app.property("collector") is not None:
        return
    from pyqtgraph.util.garbage_collector import GarbageCollector  # not before the first paint

    qt_app.setProperty("collector", GarbageCollector())  # keeps it alive
