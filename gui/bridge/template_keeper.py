"""Keeps the framework of the next run loaded: starts the template that the form needs."""

from __future__ import annotations

import logging
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from engine.templates import client
from engine.templates.client import NoTemplate
from engine.templates.kinds import TemplateKind
from gui.bridge.background import Background

_log = logging.getLogger(__name__)

DELAY_MS = 700
"""Time after the last change of the form: the user may still be choosing a strategy."""


class TemplateKeeper(QObject):
    """Starts at most one template at a time, in the background; nothing before `begin`."""

    switched = Signal(bool)
    """Whether this user wants templates."""

    failed = Signal(str)
    """A sentence: the switch could not be changed."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._kind: TemplateKind | None = None
        self._has_begun = self._is_starting = False
        self._is_on = True
        self._timer = QTimer(self, interval=DELAY_MS, singleShot=True)
        self._timer.timeout.connect(self._start)

    def begin(self) -> None:
        """Start templates from now on."""
        self._has_begun = True
        self._background.run(client.is_switched_on, self._tell, self._switch_failed)
        self.return_to_form()

    def stop(self) -> None:
        """Start no more templates; those that run go on."""
        self._has_begun = False
        self._timer.stop()

    def want(self, kind: TemplateKind | None) -> None:
        """Set the kind of template that the form needs; None: its run starts cold."""
        self._kind = kind
        self.return_to_form()

    def return_to_form(self) -> None:
        """Start the template if it has ended: the user is about to start a run."""
        if self._has_begun and self._kind is not None:
            self._timer.start()

    def switch(self, on: bool) -> None:
        """Switch templates on or off for this user; `off` ends those that run."""
        self._background.run(partial(_switch, on), self._switched, self._switch_failed)

    def _tell(self, is_on: bool) -> None:
        self._is_on = is_on
        self.switched.emit(is_on)

    def _switched(self, is_on: bool) -> None:
        self._tell(is_on)
        self.return_to_form()

    def _switch_failed(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        self.failed.emit(f"This could not be switched: {error}.")
        self.switched.emit(self._is_on)

    def _start(self) -> None:
        if self._kind is not None and not self._is_starting:
            self._is_starting = True
            kind = self._kind
            self._background.run(partial(_start, kind), self._started, self._not_started)

    def _started(self, kind: TemplateKind | None) -> None:
        self._is_starting = False
        self._tell(kind is not None)
        if kind is not None and self._kind is not kind:
            self.return_to_form()

    def _not_started(self, error: Exception) -> None:
        self._is_starting = False
        if not isinstance(error, (NoTemplate, OSError)):
            raise error
        _log.info("no template could be started: %s", error)  # the run says so when it starts cold


def _switch(on: bool) -> bool:
    client.switch(on=on)
    return client.is_switched_on()


def _start(kind: TemplateKind) -> TemplateKind | None:
    """Start the template `kind` and return it; None: this user wants none."""
    if not client.is_switched_on():
        return None
    client.start(kind)
    return kind
