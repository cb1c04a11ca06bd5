"""Finds the Python that a user means: a path, a virtual environment, or the name of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.environments import registry
from engine.environments.activation import PROGRAM, environment_folder, python_of
from engine.environments.needs import interpreter_problem

_CONDA_HOMES = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")
_VENV_NAMES = (".venv", "venv", "env", ".env")
"""Names that virtual environments in the folder of a project often have."""


class NoInterpreter(Exception):
    """There is no such Python; the text is a sentence."""


def find_interpreter(text: str, folder: Path) -> Path:
    """Return the program of the Python that `text` names.

    `text` is the name of an environment that the user has added, the path of a Python or of an
    environment (of venv or conda), the name of a virtual environment in `folder`, or the name of a
    conda environment. Links stay as they are: a virtual environment is found by them. Raises
    NoInterpreter, UnreadableRegistry.
    """
    is_path = os.sep in text or Path(text).is_absolute()
    if not is_path and (added := registry.find(text)):
        if problem := interpreter_problem(added.python):
            raise NoInterpreter(problem)
        return Path(added.python)
    path = Path(os.path.abspath(folder / Path(text).expanduser()))  # noqa: PTH100  # links stay
    if (found := python_of(path)) is not None:
        return found
    if path.is_file() and os.access(path, os.X_OK):
        return path
    if not is_path:
        for environment in conda_environments():
            if environment.name == text and (found := python_of(environment)) is not None:
                return found
        known = [each.name for each in registry.environments()]
        known += [each.name for each in virtual_environments(folder)]
        known += [each.name for each in conda_environments()]
        others = ", ".join(dict.fromkeys(known)) or "none"
        raise NoInterpreter(
            f"There is no environment {text!r}: none was added by this name, and none is in "
            f"{folder} or of conda (found: {others}). Say its name, its folder or its python."
        )
    for program in (path, path / PROGRAM):
        if program.is_symlink() and not program.exists():
            raise NoInterpreter(interpreter_problem(str(program)))
    if path.exists():
        raise NoInterpreter(
            f"{path} is neither a Python nor the folder of an environment, which has "
            f"{PROGRAM.as_posix()}."
        )
    raise NoInterpreter(f"There is no Python {path}: check the path.")


def interpreter_of(text: str, folder: Path) -> str:
    """Return the path of the Python that `text` names; empty: it is that of Traindeck itself.

    See `find_interpreter`. Raises NoInterpreter, UnreadableRegistry.
    """
    if text == registry.OWN:
        return ""
    found = find_interpreter(text, folder)
    return "" if is_own(found) else str(found)


def is_own(interpreter: Path) -> bool:
    """Whether the environment of `interpreter` is the one in which Traindeck runs."""
    try:
        return environment_folder(interpreter).samefile(sys.prefix)
    except OSError:
        return False


def virtual_environments(folder: Path) -> list[Path]:
    """Return the virtual environments in `folder`, those with usual names first."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []
    found = [entry for entry in entries if (entry / "pyvenv.cfg").is_file() and python_of(entry)]
    return sorted(found, key=lambda entry: entry.name not in _VENV_NAMES)


def conda_environments() -> list[Path]:
    """Return the environments of conda and its relatives that can be found, without asking it."""
    found: dict[Path, None] = {}
    for candidate in _conda_candidates():
        if candidate not in found and python_of(candidate) is not None:
            found[candidate] = None
    return list(found)


def _conda_candidates() -> Iterator[Path]:
    try:
        listed = Path.home() / ".conda" / "environments.txt"
        yield from (Path(line) for line in listed.read_text().splitlines() if line)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home
        pass
    for home in _conda_homes():
        try:
            yield from sorted(entry for entry in (home / "envs").iterdir() if entry.is_dir())
        except OSError:
            continue


def _conda_homes() -> Iterator[Path]:
    for variable in ("CONDA_PREFIX", "CONDA_PREFIX_1", "MAMBA_ROOT_PREFIX"):
        if value := os.environ.get(variable):
            yield Path(value)
            yield Path(value).parent.parent  # the prefix of an environment in `envs`
    if program := os.environ.get("CONDA_EXE"):
        yield Path(program).parent.parent
    try:
        home = Path.home()
    except RuntimeError:
        return
    for parent in (home, Path("/opt")):
        yield from (parent / name for name in (*_CONDA_HOMES, "conda"))
