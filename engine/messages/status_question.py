"""Asks the supervisors of silent runs for their status, from threads of their own."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.messages.channel import CLOSED, Hello, StatusAnswer, StatusQuestion, connect

ANSWER_SECONDS = 2.0
"""Time for an answer. Supervisors answer within milliseconds, from a thread that only does that."""

AGAIN_SECONDS = 0.5
"""Least time between two questions to one supervisor."""

FORGET_SECONDS = 5.0
"""An older reply says nothing about the present."""


class Reply(NamedTuple):
    """How a question ended."""

    answer: StatusAnswer | None
    """None: there was none within ANSWER_SECONDS."""

    at: float
    """When it ended (`time.monotonic`)."""


def ask(folder: Path, patience: float = 0.0) -> Reply | None:
    """Return the newest reply of the supervisor of the run in `folder`; None: not known yet.

    Ask again if the last question is old, and wait up to `patience` seconds for that reply.
    """
    with _lock:
        question = _questions.get(folder)
        if question is None or question.is_old:
            question = _questions[folder] = _Question(folder, question.reply if question else None)
    question.ended.wait(patience)
    return question.newest_reply()


class _Question:
    """One question. The thread that asks it may wait for a disk, to read the address."""

    def __init__(self, folder: Path, before: Reply | None) -> None:
        self.reply = before
        self.ended = threading.Event()
        self._asked = time.monotonic()
        try:
            threading.Thread(target=self._ask, args=(folder,), daemon=True, name="question").start()
        except RuntimeError:  # a limit for threads
            self._end(None)

    @property
    def is_old(self) -> bool:
        return self.ended.is_set() and time.monotonic() - self._asked > AGAIN_SECONDS

    def newest_reply(self) -> Reply | None:
        now = time.monotonic()
        if not self.ended.is_set() and now - self._asked > ANSWER_SECONDS:
            return Reply(None, now)
        return self.reply if self.reply and now - self.reply.at < FORGET_SECONDS else None

    def _ask(self, folder: Path) -> None:
        answer = None
        try:
            channel = connect(folder, Hello(rank=-1), ANSWER_SECONDS)
            try:
                channel.send(StatusQuestion())
                received = channel.receive(ANSWER_SECONDS)
                answer = received if isinstance(received, StatusAnswer) else None
            finally:
                channel.close()
        except (*CLOSED, TimeoutError, msgspec.DecodeError):
            pass  # no answer is what this reports
        finally:
            self._end(answer)

    def _end(self, answer: StatusAnswer | None) -> None:
        self.reply = Reply(answer, time.monotonic())
        self.ended.set()


_lock = threading.Lock()
_questions: dict[Path, _Question] = {}
