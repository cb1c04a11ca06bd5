"""Versions of stored formats, as text and as a number."""

from __future__ import annotations

import pytest

from engine.files.format_version import UNNUMBERED, FormatVersion
from tests.support.sentences import sentence


def test_a_version_is_a_text_and_a_number() -> None:
    version = FormatVersion(2, 7)
    assert FormatVersion.from_text(str(version)) == version
    assert FormatVersion.from_number(version.number) == version
    assert FormatVersion.from_number(0) == UNNUMBERED


@pytest.mark.parametrize("text", ["", "1", "1.", "1.2.3", "one", "-1.0", 1.0, None, "²." + "1"])
def test_what_is_no_version_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no version"):
        FormatVersion.from_text(text)


def test_only_a_newer_major_number_is_unreadable() -> None:
    known = FormatVersion(1, 3)
    for readable in (UNNUMBERED, FormatVersion(1, 3), FormatVersion(1, 99)):
        assert readable.why_unreadable("a file", known) == ""
    assert FormatVersion(2, 0).why_unreadable("a file", known) == sentence(
        "file-has-format-of-newer-version"
    )
