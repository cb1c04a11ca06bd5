"""The program and the variables of an environment, as if it was activated in a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROGRAM = Path("Scripts/python.exe") if os.name == "nt" else Path("bin/python")
"""Where the Python of an environment lies in its folder."""


def environment_folder(interpreter: Path) -> Path:
    """Return the folder of the environment that the program `interpreter` belongs to."""
    return interpreter.parent.parent


def activated(environment: Mapping[str, str], interpreter: str) -> dict[str, str]:
    """Return `environment` as if the environment of `interpreter` was activated in a terminal."""
    if not interpreter:
        return dict(environment)
    program = Path(interpreter)
    folder = environment_folder(program)
    entries = [str(program.parent), *environment.get("PATH", os.defpath).split(os.pathsep)]
    changed = {**environment, "PATH": os.pathsep.join(dict.fromkeys(entries))}
    for name in ("PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"):
        changed.pop(name, None)
    if (folder / "pyvenv.cfg").exists():
        changed["VIRTUAL_ENV"] = str(folder)
    elif (folder / "conda-meta").is_dir():
        changed |= {"CONDA_PREFIX": str(folder), "CONDA_DEFAULT_ENV": folder.name}
    return changed


def python_of(environment: Path) -> Path | None:
    """Return the Python in the folder of an environment; None if there is none."""
    program = environment / PROGRAM
    return program if program.is_file() and os.access(program, os.X_OK) else None
