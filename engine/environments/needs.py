"""What a worker needs in the Python of an environment, and the command that installs it there."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.environments.activation import environment_folder
from engine.environments.installed import Installed, installed_for, python_version, venv_settings

OLDEST_FOR_RECIPES = (3, 11)
"""The Python of a worker. Scripts need less: see `OLDEST_FOR_SCRIPTS`."""

OLDEST_FOR_SCRIPTS = (3, 9)
"""What is injected into a script is written for it."""

TITLES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "keras": "Keras"}
"""Packages by which a person knows them under another name."""

WORKER_NEEDS = ("msgspec>=0.19", "numpy>=2", "psutil>=6")
"""What `engine.worker` imports besides the standard library, with every framework."""

FRAMEWORKS = {
    "torch": ("torch>=2.11,<2.15", "safetensors>=0.5"),
    "tensorflow": ("tensorflow>=2.21,<2.22",),
}
"""Each framework, and what a worker needs besides to use it."""

KERAS = "keras>=3.15,<4"
OF_BUILTIN_RECIPES = "scikit-learn>=1.5"
ON_GPUS = {"tensorflow": "tensorflow[and-cuda]>=2.21,<2.22"}
"""What is installed in an environment whose framework is for GPUs, where that is another thing."""

OLDEST_THAT_WORKS = {"torch": "2.9"}
"""Older ones lack what a checkpoint is written with. A run says if it is not the tested one."""

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*(.*)")
_VALID = re.compile(
    r"\s*[A-Za-z0-9]([\w.-]*\w)?\s*(\[[\w\s.,-]*\])?\s*"
    r"(@\s*\S+|\(?([<>=!~]=?=?\s*[\w.*+!-]+\s*,?\s*)*\)?)\s*"
    r"(;\s*[\w(][^;]*([<>=!~]=?|\bin\b)[^;]*)?"
)


class Requirement(NamedTuple):
    """A requirement as pip takes it."""

    text: str

    @property
    def package(self) -> str:
        """The name of the package; the text itself if it is a path or an address."""
        found = _REQUIREMENT.fullmatch(self.text)
        return found[1] if found else self.text

    @property
    def is_valid(self) -> bool:
        """Whether pip may take it: a package, a path that exists, or an address."""
        if _VALID.fullmatch(self.text) or re.match(r"[a-z+]+://", self.text):
            return True
        return not self.text.lstrip().startswith("-") and Path(self.text).exists()

    @property
    def oldest(self) -> str:
        """The oldest version that fits; empty: any."""
        found = re.search(r">=\s*([\d.]+)", self.text)
        return found[1] if found else ""

    def is_met(self, version: str) -> bool:
        """Whether an installed `version` is new enough; an empty one is not installed."""
        return bool(version) and _numbers(version) >= _numbers(self.oldest)

    def is_in_range(self, version: str) -> bool:
        """Whether an installed `version` is new enough and not too new."""
        end = re.search(r"<\s*([\d.]+)", self.text)
        return self.is_met(version) and (not end or _numbers(version) < _numbers(end[1]))


def package_of(framework: str) -> str:
    """Return the package of a strategy's framework, `torch` or `tf`."""
    return "tensorflow" if framework == "tf" else framework


def needs_of(framework: str, *, keras: bool = False, builtin: bool = False) -> tuple[str, ...]:
    """Return the requirements of a worker, the framework first.

    `framework`: `torch` or `tensorflow`. `keras`: its recipe is one of Keras. `builtin`: it is
    built in.
    """
    found = [*FRAMEWORKS[framework], *WORKER_NEEDS]
    found += [KERAS] if keras else []
    return tuple([*found, OF_BUILTIN_RECIPES] if builtin else found)


def recipe_problem(
    interpreter: str, framework: str, *, keras: bool = False, builtin: bool = False
) -> str:
    """Return why the Python at `interpreter` cannot train a recipe, in a sentence; empty: it can.

    It reads files only. The arguments are those of `needs_of`.
    """
    if problem := interpreter_problem(interpreter):
        return problem
    python = Path(interpreter)
    version = python_version(python)
    if version and version < OLDEST_FOR_RECIPES:
        return (
            f"{interpreter} is Python {_dotted(version)}, and a worker that trains a recipe needs "
            f"Python {_dotted(OLDEST_FOR_RECIPES)} or newer: choose another environment. Scripts "
            f"run with Python {_dotted(OLDEST_FOR_SCRIPTS)} or newer."
        )
    needs = needs_of(framework, keras=keras, builtin=builtin)
    installed = installed_for(interpreter)
    oldest, found = OLDEST_THAT_WORKS.get(framework, ""), installed.version(framework)
    if oldest and found and _numbers(found) < _numbers(oldest):
        return (
            f"{TITLES[framework]} {found} in {environment_folder(python)} is too old for a worker "
            f"of Traindeck, which needs {oldest} or newer: "
            f"`{install_command(python, needs[:1])}` installs one that it is tested with."
        )
    return missing_problem(python, missing(installed, needs))


def interpreter_problem(path: str) -> str:
    """Return why the Python `path` of a spec cannot be started, in a sentence; empty if it can."""
    if not path:
        return ""
    program = Path(path)
    settings = venv_settings(environment_folder(program))
    home = settings.get("home", "")
    if settings and home and not Path(home).is_dir():
        return (
            f"The environment {environment_folder(program)} was made with the Python in {home}, "
            "which is gone: make it again, or choose another one."
        )
    if program.is_symlink() and not program.exists():
        return (
            f"The Python {path} is a link to {program.readlink()}, which is gone: the environment "
            "must be made again, or choose another one."
        )
    if installed_program(path):
        return ""
    return f"There is no Python {path} (any more): choose another environment."


def installed_program(path: str) -> bool:
    """Whether `path` is a program that this user may start."""
    return Path(path).is_file() and shutil.which(path) is not None


def missing(installed: Installed, needs: Iterable[str]) -> list[str]:
    """Return those of the requirements `needs` that are not installed, or too old."""
    found = []
    for text in needs:
        need = Requirement(text)
        version = installed.version(need.package)
        if need.package == "tensorflow" and installed.tensorflow:
            version = installed.tensorflow.version
        if (not need.is_met(version) and need.package not in TITLES) or not version:
            found.append(text)
    return found


def missing_problem(python: Path, lacking: Sequence[str]) -> str:
    """Return what the environment of `python` lacks and how it is installed; empty: nothing."""
    if not lacking:
        return ""
    names = [Requirement(text).package for text in lacking]
    listed = " and ".join([", ".join(map(_title, names[:-1])), _title(names[-1])]).removeprefix(
        " and "
    )
    return (
        f"The environment {environment_folder(python)} has no {listed} that a worker of Traindeck "
        f"can use: `{install_command(python, lacking)}` installs what it needs."
    )


def untested(installed: Installed, frameworks: Iterable[str] = tuple(FRAMEWORKS)) -> list[str]:
    """Return which of the `frameworks` are installed in versions that Traindeck was not tested
    with: sentences."""
    found = []
    for name in frameworks:
        requirement = FRAMEWORKS[name][0]
        version = installed.version(name)
        if name == "tensorflow":
            version = installed.tensorflow.version if installed.tensorflow else ""
        if version and not Requirement(requirement).is_in_range(version):
            title = f"{TITLES[name]} {version}"
            found.append(f"{title} is here; Traindeck is tested with {requirement}.")
    return found


def install_command(python: Path, requirements: Sequence[str]) -> str:
    """Return the command that installs `requirements` for `python`, quoted for a shell."""
    return shlex.join([*install_words(python), *requirements])


def install_words(python: Path) -> list[str]:
    """Return the words before the requirements: those of pip, or of uv where there is no pip."""
    settings = venv_settings(environment_folder(python))
    if not installed_for(str(python)).version("pip") and ("uv" in settings or shutil.which("uv")):
        return ["uv", "pip", "install", "--python", str(python)]
    return [str(python), "-m", "pip", "install"]


def _title(package: str) -> str:
    return TITLES.get(package, package)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
