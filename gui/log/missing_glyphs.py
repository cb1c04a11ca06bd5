"""Pictures that the font of the log does not have, such as emoji: they would be empty boxes."""

from __future__ import annotations

import unicodedata

from PySide6.QtGui import QRawFont

_SYMBOLS = ("So", "Sk", "Mn", "Cf", "Co", "Cn")
"""Unicode categories of pictures and of what changes them. A letter that cannot be drawn stays a
box: it says that there is text."""

_PLAIN = "\u2000"
"""Before it stand the letters of most alphabets, after it the pictures."""


class MissingGlyphs:
    """Knows what `font` can draw."""

    def __init__(self, font: QRawFont) -> None:
        self._font = font
        self._missing: dict[str, bool] = {}
        """Of each sign that came, whether it is a picture that cannot be drawn."""

    def drawable(self, text: str) -> str:
        """`text` without pictures that cannot be drawn."""
        if text.isascii():
            return text
        for sign in set(text):
            if sign >= _PLAIN and self._is_missing(sign):
                text = text.replace(sign, "").rstrip()
        return text

    def _is_missing(self, sign: str) -> bool:
        if sign not in self._missing:
            is_picture = unicodedata.category(sign) in _SYMBOLS
            self._missing[sign] = is_picture and not self._font.supportsCharacter(ord(sign))
        return self._missing[sign]
