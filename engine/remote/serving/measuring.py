"""What is measured before a run, for another machine: a watch on the process that does it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from engine.interface.encoding import checked_argument, encode
from engine.interface.failures import refusal_of
from engine.planning import kept
from engine.planning.measuring_process import MeasuringProcess
from engine.planning.requests import Answer, Refusal, Request
from engine.planning.results import News
from engine.remote.requests import Measure, MeasureNews
from engine.remote.serving.watches import Watch
from engine.remote.wire import FrameTooLarge

_log = logging.getLogger(__name__)


class MeasureWatch(Watch):
    """Pushes the answers of a process that measures, and its end.

    When it is closed, the process ends its workers and then itself; `close` does not wait.
    """

    def __init__(self, number: int, push: Callable[[int, Any], None], request: Measure) -> None:
        super().__init__(number, push)
        self._request = request
        self._lock = threading.Lock()
        self._process: MeasuringProcess | None = None
        self._is_stopped = False
        self._untold = MeasureNews()
        self._there = threading.Event()
        self._worker = threading.Thread(target=self._measure, daemon=True, name=f"measure {number}")

    def start(self) -> None:
        self._worker.start()
        super().start()

    def stop(self) -> None:
        """End what is measured; what it has found is pushed."""
        with self._lock:
            self._is_stopped, process = True, self._process
        if process is not None:
            process.cancel()

    def close(self) -> None:
        super().close()
        self.stop()
        self._there.set()

    def _measure(self) -> None:
        """Start the process, and read what it answers; the thread of the process."""
        try:
            request = checked_argument(Request, self._request.asked, "asked", "measure")
            process = MeasuringProcess(request)
        except (OSError, ValueError) as error:
            text = refusal_of(error).text
            self._tell(MeasureNews([encode(Refusal(text))], is_over=True))
            return
        with self._lock:
            self._process, is_stopped = process, self._is_stopped
        if is_stopped:
            process.cancel()
        for answer in process.answers():
            self._tell(MeasureNews([encode(answer)], self._keep(answer)))
        end = process.wait_and_close()
        self._tell(MeasureNews(is_over=True, exit_code=end.exit_code, last_words=end.last_words))

    def _keep(self, answer: Answer) -> str:
        """Keep a race or a preflight, also for runs that are started there; return why it is not
        kept."""
        if isinstance(answer, News | Refusal) or not kept.says_something(answer):
            return ""
        try:
            kept.keep(answer)
        except OSError as error:
            return f"What was measured could not be kept there: {error.strerror or error}."
        return ""

    def _tell(self, news: MeasureNews) -> None:
        with self._lock:
            before = self._untold
            self._untold = replace(
                news,
                answers=[*before.answers, *news.answers],
                not_kept=before.not_kept or news.not_kept,
            )
        self._there.set()

    def _news(self) -> MeasureNews | None:
        self._there.clear()
        with self._lock:
            found, self._untold = self._untold, MeasureNews()
        return found if found != MeasureNews() else None

    def _send(self, news: Any) -> None:
        try:
            super()._send(news)
        except FrameTooLarge as error:
            text = f"What was measured is too large to be sent ({error}): race fewer entries."
            super()._send(replace(news, answers=[encode(Refusal(text))]))
        if news.is_over:
            self.close()

    def _pause(self) -> None:
        self._there.wait()

    def _end(self) -> None:
        self.stop()
