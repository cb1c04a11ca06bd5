"""Has races, preflights, memory and batch sizes measured, on this machine or another one."""

from __future__ import annotations

import contextlib
import logging
import threading

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from engine.client import CannotStart
from engine.interface.values import NoAnswer, NotConnected
from engine.planning.measuring_process import MeasuringEnd
from engine.planning.requests import Answer, Refusal, Request
from engine.planning.results import News, Result
from engine.processes.process import signal_name
from gui.bridge.machines.machines import Machines

_log = logging.getLogger(__name__)

CLOSE_SECONDS = 3.0
"""Time that a process here has to end its workers when the window closes; then it goes on by
itself, and the window does not wait."""

Kind = type[Request]


class Planning(QObject):
    """Measures one request at a time, over all machines; the others wait, one of a kind.

    Two at once would disturb each other's figures. A newer request takes the place of an older one
    of its kind, of which nothing more is told. What comes from another machine names the files
    that were sent as they are called here.
    """

    waits = Signal(object)
    """The Request that is measured as soon as another one is over."""

    begun = Signal(object)
    """The Request that is measured from now on."""

    news = Signal(object, object)
    """The Request, and a piece of News."""

    found = Signal(object, object)
    """The Request, and its Result: also that of one that was stopped, as far as it came."""

    refused = Signal(object, str)
    """The Request, and why there is no result, in sentences."""

    ended = Signal(object)
    """The Request is no longer measured, and does not wait: after `found` or `refused`, or because
    it was stopped or replaced."""

    not_kept = Signal(str)
    """A sentence: why another machine could not keep what it has measured."""

    _answered = Signal(object, object)
    """A _Measurement and its Answer, as another thread emits it."""

    _left = Signal(object, object)
    """A _Measurement that is over, and its MeasuringEnd, as another thread emits it."""

    def __init__(self, machines: Machines | None = None, parent: QObject | None = None) -> None:
        """`machines`: those that may be asked to measure; None: only this one."""
        super().__init__(parent)
        self._machines = machines or Machines(parent=self)
        self._now: _Measurement | None = None
        self._thread: threading.Thread | None = None
        self._waiting: dict[Kind, Request] = {}
        self._is_closing = False
        self._answered.connect(self._hear)
        self._left.connect(self._end)

    @property
    def measured(self) -> Request | None:
        """What is measured now."""
        now = self._now
        return None if now is None or now.is_replaced or self._is_closing else now.request

    def is_asked(self, kind: Kind) -> bool:
        """Whether a request of this kind is measured now, or waits."""
        return kind in self._waiting or isinstance(self.measured, kind)

    def ask(self, request: Request) -> None:
        """Measure `request` as soon as nothing else is measured."""
        if self._is_closing:
            return
        kind, now = type(request), self._now
        if (older := self._waiting.pop(kind, None)) is not None:
            self.ended.emit(older)
        self._waiting[kind] = request
        if now is None:
            self._begin_next()
            return
        if isinstance(now.request, kind) and not now.is_replaced:
            now.is_replaced = True
            self.ended.emit(now.request)
            self._cancel(now)
        self.waits.emit(request)

    def stop(self, kind: Kind) -> None:
        """End what is measured of this kind, with what it has found; forget one that waits."""
        if (waiting := self._waiting.pop(kind, None)) is not None:
            self.ended.emit(waiting)
        if self._now is not None and isinstance(self._now.request, kind):
            self._cancel(self._now)

    def shut_down(self) -> None:
        """End what is measured, with its workers, because the window closes."""
        self._is_closing = True
        self._waiting.clear()
        if self._now is not None:
            self._now.cancelled.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)  # it uses this object

    def _begin_next(self) -> None:
        if self._now is None and self._waiting and not self._is_closing:
            request = self._waiting.pop(next(iter(self._waiting)))
            self._now = _Measurement(request)
            self._thread = threading.Thread(
                target=self._follow, args=(self._now,), name="measuring", daemon=True
            )
            self._thread.start()
            self.begun.emit(request)

    def _cancel(self, now: _Measurement) -> None:
        now.cancelled.set()

    def _follow(self, now: _Measurement) -> None:
        """Measure, and tell the answers; runs in a thread of its own."""
        from engine.interface.recipes import measure  # NumPy takes long to import

        def tell(answer: Answer) -> None:
            now.has_told = True
            self._emit_if_open(self._answered, now, answer)

        request = now.request
        try:
            end = measure(
                self._machines.engine(request.machine),
                replace(request, machine=""),
                tell,
                now.cancelled,
            )
        except NotConnected as error:
            text = "The connection has ended, and with it what was measured there."
            end = MeasuringEnd(why=text if now.has_told else str(error))
        except (CannotStart, NoAnswer) as error:
            end = MeasuringEnd(why=str(error))
        except OSError as error:
            text = (
                "Nothing was measured: the process could not be started "
                f"({error.strerror or error})."
            )
            end = MeasuringEnd(why=text)
        except Exception as error:  # a person waits for a word, and other requests for their turn
            _log.exception(
                "what was asked of %s was not measured", request.machine or "this machine"
            )
            end = MeasuringEnd(why=f"{type(error).__name__}: {error}")
        self._emit_if_open(self._left, now, end)

    def _emit_if_open(self, signal: object, *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the window is gone
            if not self._is_closing:
                signal.emit(*arguments)  # type: ignore[attr-defined]  # PySide6 types it as Signal

    def _hear(self, now: _Measurement, answer: Answer) -> None:
        if now.is_replaced or self._is_closing:
            return
        request = now.request
        match answer:
            case Refusal(text):
                now.has_answered = True
                self.refused.emit(request, _named(request, text))
            case _ if isinstance(answer, News):
                self.news.emit(request, answer)
            case _:
                assert isinstance(answer, Result)
                now.has_answered = True
                self.found.emit(request, answer)

    def _end(self, now: _Measurement, end: MeasuringEnd) -> None:
        if now is not self._now or self._is_closing:
            return
        self._now = None
        if not now.is_replaced:
            if not (now.has_answered or now.cancelled.is_set()):
                text = end.why or self._crash(end)
                self.refused.emit(now.request, _named(now.request, text))
            if end.not_kept:
                self.not_kept.emit(_named(now.request, end.not_kept))
            self.ended.emit(now.request)
        self._begin_next()

    def _crash(self, end: MeasuringEnd) -> str:
        """Return that the process has ended without a result, and what it said last."""
        code = end.exit_code
        how = signal_name(code) or f"exit code {code}"
        text = f"The process that measures has ended without a result ({how})."
        return " ".join(filter(None, (text, end.last_words)))


class _Measurement:
    """One request, while it is measured."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cancelled = threading.Event()
        self.is_replaced = self.has_answered = False
        self.has_told = False
        """Whether it is under way: an answer has come."""


def _named(request: Request, text: str) -> str:
    """Return a sentence about what was measured, with the name of another machine before it."""
    machine = request.machine
    is_named = text.startswith((f"{machine} ", f"{machine}: "))
    return f"{machine}: {text}" if machine and not is_named else text
