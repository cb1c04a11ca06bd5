"""The QApplication: what Qt needs before there is any window."""

from __future__ import annotations

import locale
from collections.abc import Mapping, Sequence

from pyqtgraph.util.garbage_collector import GarbageCollector
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QApplication

from gui.style import theme as look
from gui.style.translation import install_translation
from gui.window.taskbar import DESKTOP_FILE


def has_display(platform: str, environment: Mapping[str, str]) -> bool:
    """Whether Qt finds a screen; asked first, because Qt itself aborts where it does not."""
    if platform != "linux":
        return True
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return any(environment.get(name) for name in names)


def application(argv: Sequence[str]) -> QApplication:
    """The QApplication with Traindeck's name, font and number format.

    From then on Python's cyclic garbage is collected by a timer, between two events: a widget that
    is destroyed while Qt holds one of its locks, or by another thread, stops the window for ever.
    """
    QLocale.setDefault(QLocale.c())  # 0.001, never 0,001
    app = QApplication(list(argv))
    locale.setlocale(locale.LC_NUMERIC, "C")  # Qt took the user's, and C libraries read it
    app.setApplicationName("Traindeck")
    app.setDesktopFileName(DESKTOP_FILE)
    app.setStyle("Fusion")
    install_translation(app)
    look.load_fonts()
    app.setFont(look.application_font())
    app.setProperty("collector", GarbageCollector())  # which lives as long as the application
    return app
