"""Keeps the framework of the next run loaded: starts its template, and asks all templates."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from engine.templates import client
from engine.templates.client import NoTemplate
from engine.templates.kinds import TemplateKind
from engine.templates.protocol import TemplateState
from gui.bridge.background import Background

_log = logging.getLogger(__name__)

DELAY_MS = 700
"""Time after the last change of the form: the user may still be choosing a strategy."""

ASK_MS = 5000
ASK_SOON_MS = 1000
"""While a template loads, or is about to listen."""

LISTEN_SECONDS = 15.0
"""Longest time until a template that was started listens."""


class TemplateStatus(NamedTuple):
    """What the window shows about the templates."""

    kind: TemplateKind | None
    """The kind that the form needs; None: its run starts cold."""

    is_on: bool
    states: tuple[TemplateState, ...] = ()
    problem: str = ""
    """A clause without a full stop: why the template of `kind` could not be started."""


class TemplateKeeper(QObject):
    """Starts at most one template at a time; everything that may block is done in the background.

    It does nothing by itself before `begin`.
    """

    status = Signal(object)
    """TemplateStatus: after each answer, and when the form needs another kind."""

    failed = Signal(str)
    """A sentence: the switch could not be changed."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._kind: TemplateKind | None = None
        self._answer = TemplateStatus(None, True)
        self._problem = ""
        self._has_begun = self._is_visible = False
        self._is_starting = self._is_asking = False
        self._listens_until = 0.0
        self._start_timer = QTimer(self, interval=DELAY_MS, singleShot=True)
        self._start_timer.timeout.connect(self._start)
        self._ask_timer = QTimer(self, singleShot=True)
        self._ask_timer.timeout.connect(self._ask)

    def begin(self) -> None:
        """Start and ask templates from now on."""
        if not self._has_begun:
            self._has_begun = True
            self._start_timer.start()
            self._ask()

    def stop(self) -> None:
        """Start and ask no more templates; those that run go on."""
        self._has_begun = False
        self._start_timer.stop()
        self._ask_timer.stop()

    def want(self, kind: TemplateKind | None) -> None:
        """Set the kind of template that the form needs; None: its run starts cold."""
        self._kind, self._problem = kind, ""
        self._show()
        self._wake()

    def return_to_form(self) -> None:
        """Start the template again if it has ended: the user is about to start a run."""
        if self._state() is None:
            self._wake()

    def set_visible(self, visible: bool) -> None:
        """Set whether the window is visible; while it is not, no template is asked."""
        self._is_visible = visible
        self._ask()

    def switch(self, on: bool) -> None:
        """Switch templates on or off for this user; `off` ends those that run."""
        self._problem = ""

        def done(_: None) -> None:
            self._ask()
            self._wake()

        self._background.run(partial(client.switch, on=on), done, self._switch_failed)

    def _wake(self) -> None:
        if self._has_begun and self._kind is not None:
            self._start_timer.start()

    def _start(self) -> None:
        kind = self._kind
        if kind is None or self._is_starting:
            return
        self._is_starting = True

        def work() -> bool:
            if client.is_switched_on():
                client.start(kind, at_low_priority=True)
            return client.is_switched_on()

        self._background.run(work, partial(self._started, kind), partial(self._not_started, kind))

    def _started(self, kind: TemplateKind, is_on: bool) -> None:
        self._is_starting = False
        if is_on:
            self._listens_until = time.monotonic() + LISTEN_SECONDS
        if self._kind is kind:
            self._problem = ""
        else:
            self._wake()
        self._ask_timer.start(ASK_SOON_MS)

    def _not_started(self, kind: TemplateKind, error: Exception) -> None:
        self._is_starting = False
        if not isinstance(error, (NoTemplate, OSError)):
            raise error
        _log.info("the template %s could not be started: %s", kind.name, error)
        if self._kind is kind:
            self._problem = str(error)
            self._show()
        else:
            self._wake()

    def _ask(self) -> None:
        if not self._has_begun or not self._is_visible or self._is_asking:
            return
        self._is_asking = True
        self._background.run(_ask, self._answered, self._not_answered)

    def _answered(self, answer: TemplateStatus) -> None:
        self._is_asking = False
        was_on, self._answer = self._answer.is_on, answer
        self._show()
        if answer.is_on and not was_on:  # by the command line, or by another window
            self._wake()
        state = self._state()
        is_expected = state is None and time.monotonic() < self._listens_until
        is_loading = state is not None and not state.is_ready
        if self._has_begun:
            self._ask_timer.start(ASK_SOON_MS if is_expected or is_loading else ASK_MS)

    def _not_answered(self, error: Exception) -> None:
        self._is_asking = False
        if not isinstance(error, OSError):
            raise error
        _log.info("the templates could not be asked: %s", error)
        if self._has_begun:
            self._ask_timer.start(ASK_MS)

    def _switch_failed(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        self.failed.emit(f"This could not be switched: {error}.")
        self._show()

    def _state(self) -> TemplateState | None:
        """Return the newest state of the template that the form needs."""
        return next(
            (each for each in self._answer.states if self._kind and each.kind == self._kind.name),
            None,
        )

    def _show(self) -> None:
        self.status.emit(self._answer._replace(kind=self._kind, problem=self._problem))


def _ask() -> TemplateStatus:
    return TemplateStatus(None, client.is_switched_on(), tuple(client.states()))
