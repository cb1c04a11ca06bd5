"""Fills the templates of the report: every text is escaped, as names of runs come from anywhere."""

from __future__ import annotations

import re

from markupsafe import Markup

from engine.processes.process import PROJECT
from engine.scripts.secrets import redacted
from engine.system import units

_UNREADABLE = re.compile(
    "[^\\t\\n\\r -\\x7e\\xa0-\\ud7ff\\ue000-\\ufdcf\\ufdf0-\\ufffd\\U00010000-\\U0010ffff]"
)
"""Control characters, halves of characters, and what no document may hold."""


def rendered(template: str, **content: object) -> str:
    """Return the page that the file `template` in `resources/report/` makes of `content`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # slow, and seldom needed

    environment = Environment(
        loader=FileSystemLoader(PROJECT / "resources" / "report"),
        autoescape=True,
        finalize=_readable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": units.duration,
        "moment": moment,
        "redacted": redacted,
        "size": units.byte_size,
    }
    return environment.get_template(template).render(**content)


def moment(seconds: float) -> str:
    """Return date and time of seconds since the epoch; 0 is never."""
    return units.date_and_time(seconds) if seconds else "never"


def _readable(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return _UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))
