"""What a command starts: a Python script, a module, or any other program; and why it cannot."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?", re.IGNORECASE)
_LAUNCHERS = frozenset({"torchrun", "torchrun-script", "accelerate", "deepspeed", "mpirun", "srun"})
_LAUNCHER_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"}
)
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Options of Python whose value is the next word."""


class CommandProblem(Exception):
    """The command cannot be started; the text is a sentence."""


def command_words(
    command: Sequence[str], folder: Path, interpreter: str, search_path: str | None = None
) -> list[str]:
    """Return the program of `command` and its arguments, as they are started in `folder`.

    `interpreter` runs `.py` files, folders with a `__main__.py`, and what begins with an option of
    Python, such as `-m package.module`. Programs without a folder are looked up in `search_path`
    (default: `$PATH`). Raises CommandProblem.
    """
    if not command or not command[0]:
        raise CommandProblem("There is no command: say what to run, such as `-- train.py`.")
    first = command[0]
    path = folder / first  # an absolute `first` stays
    if first.startswith("-"):
        return [interpreter, *command]
    if first.endswith(".py") or (path.is_dir() and (path / "__main__.py").is_file()):
        if not path.exists():
            raise CommandProblem(f"There is no script {path}: check the path and the folder.")
        return [interpreter, *command]
    if first.endswith(".ipynb"):
        raise CommandProblem(
            f"{first} is a notebook, which no program runs by itself: save it as a script, such as "
            f"with `jupyter nbconvert --to script {first}`."
        )
    if is_python(first):
        return [interpreter, *command[1:]]
    has_folder = os.sep in first
    found = shutil.which(str(path) if has_folder else first, path=search_path)
    if found and Path(found).is_absolute():
        return [found, *command[1:]]
    if path.is_file():
        return _words_of_file(path, command[1:])
    where = f"{path}" if has_folder else f"{first}, neither in {folder} nor in the search path"
    raise CommandProblem(f"There is no program {where}: check the command and the folder.")


def is_python(word: str) -> bool:
    """Whether `word` means a Python by its bare name, for which the chosen one stands in."""
    return os.sep not in word and _PYTHON.fullmatch(word) is not None


def script_of(command: Sequence[str], folder: Path, programs: str | None = None) -> Path:
    """Return the file that stands for `command`, which is started in `folder`.

    Programs without a folder are looked up in `programs` (default: `$PATH`).

    The script or the module in its own file; the first `.py` file among the arguments of a
    launcher; otherwise the program, which is Python for code or a module of a package that is
    installed. It need not exist.
    """
    words = list(command)
    if words and (is_python(words[0]) or _is_path_of_python(words[0])):
        words = words[1:]
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words = words[2 if words[0] in _WITH_VALUE else 1 :]
    match words:
        case ["-m", module, *_] if found := _module_file(module, folder):
            return found
        case [first, *_] if not first.startswith("-"):
            path = folder / first
            if first.endswith(".py"):
                return path
            if path.is_dir():
                return path / "__main__.py"
            for word in words[1:]:
                if word.endswith(".py") and (folder / word).is_file():
                    return folder / word
            if os.sep not in first and not path.is_file():
                return Path(shutil.which(first, path=programs) or path)
            return path
        case _:
            return Path(sys.executable) if command else folder


def launcher_in(command: Sequence[str]) -> str:
    """Return the launcher that would start several processes itself; empty if there is none."""
    for number, word in enumerate(command):
        if number and command[number - 1] == "-m" and word in _LAUNCHER_MODULES:
            return word
        if Path(word).name in _LAUNCHERS and number <= 1:
            return Path(word).name
        if word.endswith(".py"):
            break  # what follows are the arguments of a script
    return ""


def search_path(environment: Mapping[str, str]) -> str:
    """Return where programs of a command are looked up: at last, beside Traindeck's Python."""
    beside = os.path.dirname(sys.executable)  # noqa: PTH120
    return os.pathsep.join([environment.get("PATH", os.defpath), beside])


def _is_path_of_python(word: str) -> bool:
    return os.sep in word and _PYTHON.fullmatch(Path(word).name) is not None


def _words_of_file(path: Path, arguments: Sequence[str]) -> list[str]:
    """Run a file that is not executable with the program that its first line or its name says."""
    try:
        with path.open("rb") as file:
            first = file.readline(200).decode(errors="replace").strip()
    except OSError as error:
        raise CommandProblem(f"{path} cannot be read: {error}.") from None
    if first.startswith("#!"):
        return [*first.removeprefix("#!").split(), str(path), *arguments]
    if path.suffix in (".sh", ".bash"):
        return [shutil.which("bash") or "/bin/sh", str(path), *arguments]
    raise CommandProblem(
        f"{path} is not executable: `chmod +x {path}` makes it so, if it is a program."
    )


def _module_file(module: str, folder: Path) -> Path | None:
    """Return the file that `python -m module` would run, if it is below `folder`."""
    place = folder.joinpath(*module.split("."))
    for file in (place.with_name(f"{place.name}.py"), place / "__main__.py"):
        if file.is_file():
            return file
    return None
