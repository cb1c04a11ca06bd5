"""The question to a silent supervisor: no reader waits longer than it wants to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from engine.messages import status_question
from engine.messages.channel import Hello, Server, StatusAnswer
from engine.messages.status_question import ask
from engine.supervisor.inbox import Inbox

PATIENCE = 60.0
"""Longest wait; only a test that fails gets there."""

ANSWER = StatusAnswer(msgspec.msgpack.encode({}), "it is read-only", 7.0, ())


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    """Of a supervisor whose main thread reads nothing."""
    made = Inbox()
    with closing(Server(tmp_path, made.connected)):
        yield made


def test_a_supervisor_whose_main_thread_stands_still_answers(inbox: Inbox, tmp_path: Path) -> None:
    inbox.answer_status = lambda standstill: msgspec.structs.replace(ANSWER, standstill=standstill)
    reply = ask(tmp_path, PATIENCE)
    assert reply is not None
    assert reply.answer is not None
    assert reply.answer.write_problem == "it is read-only"
    assert 0 < reply.answer.standstill < PATIENCE


def test_a_supervisor_that_does_not_answer_is_known_to_be_silent(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_question, "ANSWER_SECONDS", 0.1)
    assert ask(tmp_path) is None, "not known yet"
    reply = ask(tmp_path, PATIENCE)
    assert reply is not None
    assert reply.answer is None


def test_where_no_supervisor_listens_there_is_no_answer(tmp_path: Path) -> None:
    reply = ask(tmp_path, PATIENCE)
    assert reply is not None
    assert reply.answer is None


def test_a_limit_for_threads_is_like_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    reply = ask(tmp_path)
    assert reply is not None
    assert reply.answer is None


def test_a_worker_gets_no_answer_and_can_go_on(inbox: Inbox, tmp_path: Path) -> None:
    inbox.answer_status = lambda _: ANSWER
    channel = status_question.connect(tmp_path, Hello(rank=0))
    with closing(channel):
        channel.send(status_question.StatusQuestion())
        with pytest.raises(TimeoutError):
            channel.receive(0.1)
