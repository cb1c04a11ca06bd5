"""A bot of pytest-qt that waits as long as a busy machine needs."""

from __future__ import annotations

from functools import partialmethod

from pytestqt.qtbot import QtBot

QT_MILLISECONDS = 60_000
"""Longest wait for Qt; only a test that fails waits so long."""


class PatientBot(QtBot):
    """Waits for each event; a test that expects nothing to happen sets a time."""

    waitSignal = partialmethod(QtBot.waitSignal, timeout=QT_MILLISECONDS)
    waitSignals = partialmethod(QtBot.waitSignals, timeout=QT_MILLISECONDS)
    waitUntil = partialmethod(QtBot.waitUntil, timeout=QT_MILLISECONDS)
    waitExposed = partialmethod(QtBot.waitExposed, timeout=QT_MILLISECONDS)
    waitActive = partialmethod(QtBot.waitActive, timeout=QT_MILLISECONDS)
