"""Other versions of Python on this machine, for what runs in a user's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def other_python(version: str) -> str:
    """Return the path of a Python of `version`, such as 3.9; empty if there is none."""
    of_pyenv = sorted(_PYENV.glob(f"versions/{version}.*/bin/python"))
    return str(of_pyenv[-1]) if of_pyenv else shutil.which(f"python{version}") or ""
