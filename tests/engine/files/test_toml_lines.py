"""Documents of TOML, line by line, beside the parser of the standard library."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from engine.files import toml_lines
from engine.files.toml_lines import loads_alike

SETTINGS = (
    '[run]\nname = "a"\ndevices = [\n    "cpu:0",\n]\nrate = 0.1\n\n[run.settings]\n[other]\n'
)


def outcome(loads: Any, text: str) -> object:
    """What `loads` makes of a text, or that it refuses it."""
    try:
        return loads(text)
    except ValueError:
        return ValueError


@given(
    st.lists(
        st.sampled_from(
            [
                *SETTINGS.split("\n"),
                *("a = [", "]", "a = 1", "a.b = 1", "[a]", "[a.b]", "[[a]]", '["a"]', "a = {}"),
                *(
                    'x = """',
                    '"""',
                    "# a = [",
                    's = "= ["',
                    "'a' = 2",
                    "a = 1\r",
                    "\r",
                    "a = [ # x",
                ),
                *("b = 2 # [", "[ a ]", "d = 1979-05-27", 'u = "\u2028"', "a = [[", "= [", "\x00"),
            ]
        ),
        max_size=9,
    )
)
def test_any_lines_mean_what_they_mean_to_the_standard_library(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert outcome(loads_alike, text) == outcome(tomllib.loads, text)


values = st.recursive(
    st.text() | st.integers(-(2**40), 2**40) | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(), st.dictionaries(st.text(max_size=3), values)))
def test_what_is_written_is_read(document: dict[str, Any]) -> None:
    text = tomli_w.dumps(document)
    assert loads_alike(text) == tomllib.loads(text)


def test_a_line_is_parsed_once_and_its_value_shared_with_no_other_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toml_lines._parsed.cache_clear()
    first = loads_alike(SETTINGS)
    first["run"]["devices"].append("cpu:1")
    parsed: list[str] = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: (parsed.append(text), loads(text))[1])
    again = loads_alike(SETTINGS.replace('"a"', '"b"'))
    assert parsed == ['name = "b"']
    assert again["run"] == {"name": "b", "devices": ["cpu:0"], "rate": 0.1, "settings": {}}
