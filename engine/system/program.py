"""This program: the name that it was called by, its version, and whether it runs in a checkout."""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
from pathlib import Path

from engine.system.process import PROJECT

CONSOLE_SCRIPT = "traindeck"
IN_CHECKOUT = (PROJECT / "pyproject.toml").is_file()
"""Whether this is a checkout of the source, which has `main.py` and `tools/`."""


def program_words() -> list[str]:
    """Return the words that call this program again: `traindeck`, or `python main.py`."""
    is_script = Path(sys.argv[0]).stem == CONSOLE_SCRIPT
    return [CONSOLE_SCRIPT] if is_script or not IN_CHECKOUT else ["python", "main.py"]


def call(arguments: str) -> str:
    """Return the command line that calls this program with `arguments`, for a message."""
    return " ".join([*program_words(), arguments])


def version() -> str:
    """Return the version in the checkout, or that of the installed package."""
    if IN_CHECKOUT:
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
        return str(project["version"])
    return importlib.metadata.version("traindeck")
