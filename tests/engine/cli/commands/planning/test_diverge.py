"""Tests the command `diverge`: what it asks for, prints and returns."""

from __future__ import annotations

import json

import pytest

from engine.planning.requests import Answer, AskDivergence, Request
from engine.planning.results import Divergence, SettingDifference
from main import main
from tests.support.measuring_double import answer_requests

FOUND = Divergence(
    first="3",
    second="4",
    steps=20,
    equal=6,
    tolerance=1e-5,
    step=7,
    cause="layer",
    name="norm",
    curves="They are equal up to step 6.",
    answer="The output of norm differs.",
    settings=(SettingDifference("Precision", "fp32", "bf16"),),
    recipe=("-eps=1e-5", "+eps=1e-3"),
    notes=("Layer x has no counterpart.",),
)


ALIKE = Divergence(
    first="3", second="4", steps=20, equal=20, tolerance=1e-5, curves="All.", answer="No."
)


@pytest.mark.parametrize(("found", "code"), [(FOUND, 1), (ALIKE, 0)])
def test_it_says_where_two_runs_differ_and_its_exit_code_whether(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Divergence,
    code: int,
) -> None:
    asked = list[Request]()

    def answers(request: Request) -> list[Answer]:
        asked.append(request)
        return [found]

    answer_requests(monkeypatch, answers)
    assert main(["diverge", "3", "4"]) == code
    printed = capsys.readouterr().out
    assert asked == [AskDivergence("3", "4")]
    told = [found.answer, found.curves, *found.notes, *found.recipe]
    assert all(text in printed for text in told)
    assert all(each.title in printed and each.second in printed for each in found.settings)
    assert main(["diverge", "3", "4", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["answer"] == found.answer
