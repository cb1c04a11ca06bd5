"""Starts the installed program, whose modules lie in a folder that nobody else imports from."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = Path(__file__).parent / "_program_files"


def entry() -> int:
    """Run the program, and return its exit code. In a checkout, its modules are on the path."""
    if (_FOLDER / "engine").is_dir():
        sys.path.insert(0, str(_FOLDER))
    import main

    return main.entry()
