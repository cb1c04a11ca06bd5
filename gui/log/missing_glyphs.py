"""Removes symbols from the lines of the log that its font does not have, such as emoji."""

from __future__ import annotations

import unicodedata

from PySide6.QtGui import QRawFont

_SYMBOLS = ("So", "Sk", "Mn", "Cf", "Co", "Cn")
"""Unicode categories of symbols and their modifiers. A letter that the font does not have stays, as
an empty box: it shows that there is text."""

_FIRST_SYMBOL = "\u2000"
"""The letters of most alphabets come before this character, the symbols after it."""


class MissingGlyphs:
    """Removes symbols that `font` does not have."""

    def __init__(self, font: QRawFont) -> None:
        self._font = font
        self._missing: dict[str, bool] = {}
        """Whether the font lacks a character, by character."""

    def drawable(self, text: str) -> str:
        """Return `text` without the symbols that the font does not have."""
        if text.isascii():
            return text
        for character in set(text):
            if character >= _FIRST_SYMBOL and self._is_missing(character):
                text = text.replace(character, "").rstrip()
        return text

    def _is_missing(self, character: str) -> bool:
        if character not in self._missing:
            is_symbol = unicodedata.category(character) in _SYMBOLS
            self._missing[character] = is_symbol and not self._font.supportsCharacter(
                ord(character)
            )
        return self._missing[character]
