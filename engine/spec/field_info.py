"""One setting of a run: its type, its limits, and the messages for invalid values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

Setting = bool | int | float | str
"""A value of a setting."""

_LONGEST_QUOTE = 40
"""Characters of the entered text that a message quotes."""

_LARGEST_INT = 2**63 - 1
"""Larger numbers do not fit into TOML files and messages."""


class FieldInfo(msgspec.Struct, frozen=True):
    """The description of one setting, for the form, the command line and the validation."""

    name: str
    type: str
    """`bool`, `int`, `float`, `str` or `choice`."""

    default: Setting
    choices: tuple[Setting, ...] = ()
    doc: str = ""
    label: str = ""
    """The text beside the field in the form; empty: made from the name."""

    group: str = ""
    """The heading above the field in the form."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    """The value must be greater than this."""

    texts: tuple[str, ...] = ()
    """What the form shows for each of `choices`; empty: the choices themselves."""

    meanings: tuple[str, ...] = ()
    """What each of `choices` does; a text may be empty."""

    zero: str = ""
    """What 0 or no text means, as a word or two; the form shows it in the empty field. Empty: it
    is a value like any other."""

    def choice_text(self, choice: Setting) -> str:
        """Return what the form shows for one of `choices`."""
        return self.texts[self.choices.index(choice)] if self.texts else str(choice)

    def help(self, *, in_form: bool) -> str:
        """Return `doc` and the meanings of the choices, which are named as in the form or as on the
        command line."""
        names = self.texts if in_form and self.texts else tuple(map(str, self.choices))
        lines = [
            f"{name}: {what}" for name, what in zip(names, self.meanings, strict=False) if what
        ]
        if in_form:
            return "\n".join([self.doc, *lines])
        return f"{self.doc} {'; '.join(lines)}." if lines else self.doc

    @property
    def title(self) -> str:
        """The label, or one made from the name."""
        return self.label or self.name.replace("_", " ").capitalize()

    def problem(self, value: Setting) -> str:
        """Return why `value` is not valid, in a sentence; empty when it is."""
        if self.type == "choice":
            is_valid = value in self.choices
        elif isinstance(value, bool):
            is_valid = self.type == "bool"
        else:
            is_valid = isinstance(value, _TYPES[self.type])
        if not is_valid:
            return f"{self._subject} must be {self._wanted}, not {value!r}."
        if isinstance(value, str) or self.type == "choice":
            return ""
        if problem := self._range_problem(value):
            return problem
        if isinstance(value, int) and abs(value) > _LARGEST_INT:
            return f"{self._subject} must be a number between -2^63 and 2^63."
        return ""

    def parse(self, text: str) -> Setting:
        """Return the value of `text`, which comes from the command line or from the form.

        Raises ValueError, whose text is a sentence, when it is not valid.
        """
        if text == self.default:
            return text  # the default is valid, even with spaces around it
        text = text.strip()
        quote = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
        if not text.isprintable():
            raise ValueError(f"{self._subject} must be one line, without control characters.")
        try:
            value: Setting
            match self.type:
                case "bool":
                    value = _BOOLEANS[text.lower()]
                case "int":
                    value = int(text)
                case "float":
                    value = float(text)
                case "choice":
                    value = next(choice for choice in self.choices if str(choice) == text)
                case _:
                    value = text
        except (KeyError, ValueError, StopIteration):
            raise ValueError(f"{self._subject} must be {self._wanted}, not {quote!r}.") from None
        if isinstance(value, float) and math.isinf(value) and "inf" not in text.lower():
            raise ValueError(f"{self._subject} must be a smaller number than {quote}.")
        return value

    @property
    def _subject(self) -> str:
        """The beginning of a message about this value."""
        is_same = self.label.casefold().replace("-", "_").replace(" ", "_") in ("", self.name)
        return self.label or self.name if is_same else f"{self.label} ({self.name})"

    @property
    def _wanted(self) -> str:
        if self.type == "choice":
            return f"one of {', '.join(map(str, self.choices))}"
        return _WORDS[self.type]

    def _range_problem(self, value: float) -> str:
        if self.least is None and self.most is None and self.above is None:
            return ""
        try:
            finite = math.isfinite(value)
        except OverflowError:
            return f"{self._subject} must be a smaller number: this one is too large."
        if not finite:
            return f"{self._subject} must be a finite number, not {value}."
        if self.above is not None and value <= self.above:
            return f"{self._subject} must be above {self.above:g}, not {value:g}."
        if self.least is not None and value < self.least:
            return f"{self._subject} must be at least {self.least:.10g}, not {_number(value)}."
        if self.most is not None and value > self.most:
            return f"{self._subject} must be at most {self.most:.10g}, not {_number(value)}."
        return ""


def _number(value: float) -> str:
    """Return `value` as it was entered, or shortened when that is long."""
    text = str(value) if isinstance(value, int) else f"{value:.10g}"
    return text if len(text) <= _LONGEST_QUOTE else f"{value:.10g}"


_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}
_WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True} | dict.fromkeys(
    ("false", "no", "off", "0"), False
)


def fields_of(struct: type[msgspec.Struct]) -> Mapping[str, FieldInfo]:
    """Return the annotated fields of `struct` by name, in their order."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(struct)}
    found = {}
    for name, hint in get_type_hints(struct, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, meta = get_args(hint)
            found[name] = _field_info(name, kind, meta, defaults[name])
    return MappingProxyType(found)


def _field_info(name: str, kind: Any, meta: msgspec.Meta, default: Any) -> FieldInfo:
    is_choice = get_origin(kind) is Literal
    extra = meta.extra or {}
    described = extra.get("choices", {})
    assert not described or tuple(described) == get_args(kind), name
    return FieldInfo(
        name=name,
        type="choice" if is_choice else kind.__name__,
        default=default,
        choices=get_args(kind) if is_choice else (),
        doc=meta.description or "",
        label=meta.title or "",
        group=extra.get("group", ""),
        least=meta.ge,
        most=meta.le,
        above=meta.gt,
        texts=tuple(text for text, _ in described.values()),
        meanings=tuple(meaning for _, meaning in described.values()),
        zero=extra.get("zero", ""),
    )
