"""Readings in the background, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytestqt.qtbot import QtBot

from gui.bridge.background import Background, Reading


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    made = Background()
    yield made
    made.finish()


def broken() -> str:
    raise OSError("the disk is away")


def test_only_the_newest_question_is_read_afterwards(background: Background, qtbot: QtBot) -> None:
    told: list[str] = []
    reading = Reading(background, told.append)
    for name in "abc":
        reading.ask(lambda name=name: name)  # type: ignore[misc]
    assert reading.is_busy
    qtbot.waitUntil(lambda: not reading.is_busy)
    assert told == ["a", "c"]


def test_after_a_failure_the_next_one_is_read(background: Background, qtbot: QtBot) -> None:
    told: list[str] = []
    reading = Reading(background, told.append, lambda error: told.append(str(error)))
    reading.ask(broken)
    reading.ask(lambda: "whole")
    qtbot.waitUntil(lambda: not reading.is_busy)
    assert told == ["the disk is away", "whole"]


def test_a_question_with_the_answer_is_the_newest(background: Background, qtbot: QtBot) -> None:
    told: list[str] = []

    def take(answer: str) -> None:
        told.append(answer)
        if answer == "first":
            reading.ask(lambda: "newest")

    reading = Reading(background, take)
    reads: list[Callable[[], str]] = [lambda: "first", lambda: "meanwhile"]
    for read in reads:
        reading.ask(read)
    qtbot.waitUntil(lambda: not reading.is_busy)
    assert told == ["first", "newest"]
