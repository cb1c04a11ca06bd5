"""The command lines that messages name."""

from __future__ import annotations

import pytest

from engine.system import program
from engine.system.program import call, program_words


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("runs", "td runs --on gpus"),
        ("run -- a.py --on x", "td run --on gpus -- a.py --on x"),
        ("cluster start", f"{' '.join(program_words())} cluster start  # on gpus"),
    ],
)
def test_a_command_of_another_machine_is_named_so_that_it_works(
    monkeypatch: pytest.MonkeyPatch, arguments: str, named: str
) -> None:
    monkeypatch.setattr(program, "_asked_from", ("td", "gpus"))
    assert call(arguments) == named
