"""The CSV of the table of runs, and the texts of its cells."""

from __future__ import annotations

import csv
import io
import math

import pytest

from engine.runs.table.cell_text import cell_text
from engine.runs.table.columns import Kind, Value, columns_of
from engine.runs.table.csv_text import csv_of
from tests.support.made_runs import made_run


def test_values_are_exact_and_texts_are_no_formulas() -> None:
    third = 1 / 3
    runs = [
        made_run(1, learning_rate=third, metrics={"train/loss": -math.inf}, name='=1+2,"x"\nb'),
        made_run(2, name="-5", tags=("a,b", "c"), note="@home", created=0.125, compile=True),
    ]
    columns = columns_of(runs)
    names = ["name", "learning_rate", "train/loss", "tags", "note", "created", "compile", "time"]
    text = csv_of(runs, [columns[name] for name in names])
    header, one, two = csv.reader(io.StringIO(text))
    assert header == names
    assert one[0] == '\'=1+2,"x"\nb'
    assert float(one[1]) == third
    assert one[2] == "-inf"
    assert two[0] == "'-5"
    assert two[2:5] == ["", "a,b, c", "'@home"]
    assert two[5] == "1970-01-01T00:00:00.125+00:00"
    assert two[6:] == ["true", "60.0"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (3e-5, Kind.NUMBER, "3e-5"),
        (0.1 + 0.2, Kind.NUMBER, "0.3"),
        (256, Kind.NUMBER, "256"),
        (1234567, Kind.NUMBER, "1,234,567"),
        (1e30, Kind.NUMBER, "1e30"),
        (math.nan, Kind.NUMBER, "nan"),
        (None, Kind.NUMBER, "–"),
        (True, Kind.FLAG, "yes"),
        (3900.0, Kind.DURATION, "01:05:00"),
        (("a", "b"), Kind.LIST, "a, b"),
        ("two\nlines", Kind.TEXT, "two lines"),
    ],
)
def test_a_cell_has_few_digits(value: Value, kind: Kind, expected: str) -> None:
    assert cell_text(value, kind) == expected
