"""The version of a stored format: what an older or a newer Traindeck can still read."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d{1,6})\.(\d{1,6})", re.ASCII)
_MINORS = 100
"""A version is also one whole number, for SQLite's `user_version`: major × 100 + minor."""


class FormatVersion(NamedTuple):
    """The version of one format. A release that changes the format increases a number once.

    A new minor number only adds what an older reader can ignore. A new major number changes or
    removes something, so an older reader refuses the file.
    """

    major: int
    minor: int

    @classmethod
    def from_number(cls, number: int) -> FormatVersion:
        """Return the version of a whole number; 0, of files without a version, is UNNUMBERED."""
        return cls(*divmod(number, _MINORS)) if number else UNNUMBERED

    @classmethod
    def from_text(cls, text: object) -> FormatVersion:
        """Return the version in a text such as `1.2`. Raises ValueError."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"its format {text!r} is no version such as 1.0")
        return cls(int(match[1]), int(match[2]))

    @property
    def number(self) -> int:
        """The version as one whole number."""
        return self.major * _MINORS + self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def why_unreadable(self, file: str, known: FormatVersion) -> str:
        """Return why a reader of the format `known` cannot read `file`, which has this format.

        Empty when it can.
        """
        if self.major <= known.major:
            return ""
        return (
            f"{file} has the format {self} of a newer version of Traindeck, and this version reads "
            f"no format after {known.major}.x: upgrade Traindeck"
        )


UNNUMBERED = FormatVersion(1, 0)
"""The version of all files from before versions were stored."""
