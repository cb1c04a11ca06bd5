"""The words that are offered while a filter is typed."""

from __future__ import annotations

import pytest

from engine.runs.table.columns import columns_of
from engine.runs.table.completion import completions
from tests.support.made_runs import made_run

RUNS = [
    made_run(1, tags=("paper", 'odd "one"'), metrics={"validation/top 5": 1.0}),
    made_run(2, name="Paper two", best={"validation/accuracy": 1.0}),
]


@pytest.mark.parametrize(
    ("text", "begin", "first"),
    [
        ("lear", 0, "learning_rate"),
        ("id=1 and lear", 9, "learning_rate"),
        ("lr<1 an", 5, "and"),
        ("state == f", 9, '"finished"'),
        ("tag:pa", 4, '"paper"'),
        ("tags = odd", 7, '"odd \\"one\\""'),
        ('name == "pa', 8, '"Paper two"'),
        ("top", 0, "`validation/top 5`"),
        ("best", 0, "best(validation/accuracy)"),
    ],
)
def test_names_and_values_are_offered_where_they_may_stand(
    text: str, begin: int, first: str
) -> None:
    found = completions(text, len(text), columns_of(RUNS), RUNS)
    assert (found.begin, found.words[0]) == (begin, first)


@pytest.mark.parametrize("text", ["", "lr < 1", '"lear', "lr < 1 "])
def test_nothing_is_offered_where_nothing_is_begun(text: str) -> None:
    assert completions(text, len(text), columns_of(RUNS), RUNS).words == []


def test_only_what_is_before_the_cursor_counts() -> None:
    assert completions("lear < 1", 4, columns_of(RUNS), RUNS).words[0] == "learning_rate"
