"""Removes symbols that the font of the log does not have, such as emoji, from its lines."""

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
        """Whether the font misses a symbol, by the characters that were seen so far."""

    def drawable(self, text: str) -> str:
        """Return `text` without the symbols that the font does not have."""
        if text.isascii():
            return text
        for sign in set(text):
            if sign >= _FIRST_SYMBOL and self._is_missing(sign):
                text = text.replace(sign, "").rstrip()
        return text

    def _is_missing(self, sign: str) -> bool:
        if sign not in self._missing:
            is_symbol = unicodedata.category(sign) in _SYMBOLS
            self._missing[sign] = is_symbol and not self._font.supportsCharacter(ord(sign))
        return self._missing[sign]
