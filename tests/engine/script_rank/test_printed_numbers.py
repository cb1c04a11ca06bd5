"""What a comma and a point mean in a number that a program prints."""

from __future__ import annotations

import re

import pytest

from engine.script_rank.printed_numbers import NUMBER, NumberReader, without_groups


def values(*lines: str) -> list[list[float | None]]:
    reader, found = NumberReader(), []
    for line in lines:
        numbers = re.findall(NUMBER, without_groups(line), re.IGNORECASE)
        reader.begin_line(numbers)
        found.append([reader.value(number) for number in numbers])
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0.5 5. .5 7 -1e-3", [0.5, 5.0, 0.5, 7.0, -0.001]),
        ("1,234.5", [1234.5]),
        ("1.234,5", [1234.5]),
        ("0,0380 1.234", [0.038, 1234.0]),
        ("1,234,567", [1234567.0]),
        ("1.234", [1.234]),
        ("1,234", [None]),
        ("1,234 0.5", [1234.0, 0.5]),
        ("1,234 0,5", [1.234, 0.5]),
        ("0,038", [0.038]),
        ("1,5 0.5", [None, 0.5]),
        ("0.5,0.4,0.3", [None]),
        ("12,34.5", [None]),
        ("1'234.5 1_000 1\u202f234", [1234.5, 1000.0, 1234.0]),
    ],
)
def test_a_line_decides(line: str, expected: list[float | None]) -> None:
    assert values(line) == [expected]


def test_the_lines_before_decide_what_a_line_leaves_open() -> None:
    assert values("0,5", "1,234", "1.234") == [[0.5], [1.234], [1234.0]]
    assert values("1,234", "0.5", "1,234", "0,05", "1,234") == [
        [None],
        [0.5],
        [1234],
        [0.05],
        [1234],
    ]
