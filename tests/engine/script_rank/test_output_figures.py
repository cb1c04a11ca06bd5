"""Output that comes faster than it can be read is left out, and that is known."""

from __future__ import annotations

import pytest

from engine.script_rank import output_figures
from engine.script_rank.output_figures import OutputFigures


def test_pieces_are_read_when_nothing_else_waits_and_at_the_end() -> None:
    figures = OutputFigures()
    for piece in (b"step 1 loss 0.5\nstep 2 lo", b"ss 0.25\nstep 3 loss 0.1"):
        figures.add(piece)
    assert figures.take() == []
    assert figures.read_piece()
    assert [each.value for each in figures.take()] == [0.5]
    figures.finish()
    assert [(each.step, each.value) for each in figures.take()] == [(2, 0.25), (3, 0.1)]
    assert not figures.misses
    assert not figures.read_piece()


def test_what_finds_no_room_is_missing_and_continues_no_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_figures, "MOST_WAITING", 39)
    figures = OutputFigures()
    figures.add(b"loss 0.5\nval loss 2")
    figures.add(b"x" * 40)
    figures.add(b"y" * 40)
    figures.add(b"0 loss 0.25\n")
    figures.finish()
    found = [(each.series, each.value) for each in figures.take()]
    assert found == [("train/loss", 0.5), ("validation/loss", 2.0), ("train/loss", 0.25)]
    assert figures.misses


def test_a_command_that_never_pauses_is_read_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_figures, "LEAST_SECONDS", 0.0)
    figures = OutputFigures()
    figures.add(b"loss 0.5\n")
    assert [each.value for each in figures.take()] == [0.5]
