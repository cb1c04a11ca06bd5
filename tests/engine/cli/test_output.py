"""Tables of the command line: short ones are fitted to the terminal, long ones only aligned."""

from __future__ import annotations

import pytest
from rich.text import Text

from engine.cli import output
from engine.cli.output import show_table


def shown(count: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    rows = [(str(number), Text("名前", "bold"), "a\x1b[1m") for number in range(count)]
    show_table(("id", "name", "third"), rows)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_long_table_has_the_lines_of_a_short_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = shown(500, capsys)
    monkeypatch.delattr(output, "out")  # Rich takes a millisecond for each line
    long = shown(501, capsys)
    assert long[:501] == short
    assert len(long) == 502
    assert long[1] == "0    名前  a\\x1b[1m"


def test_a_long_table_keeps_one_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("a", "b"), [("x\ny" * 100, "b")] * 600)
    assert len(capsys.readouterr().out.splitlines()) == 601
