"""Versions of the software on a machine: what all machines of a cluster need to have equal."""

from __future__ import annotations

import platform

import msgspec

from engine.environments.installed import installed_for
from engine.system.program import version

RAY_NEEDED = "`pip install -e '.[cluster]'` in the folder of Traindeck installs it"
_TITLES = {
    "python": "Python",
    "ray": "Ray",
    "traindeck": "Traindeck",
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
}
_FRAMEWORKS = ("torch", "tensorflow")


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed on a machine; empty: it is not installed."""

    python: str = ""
    ray: str = ""
    traindeck: str = ""
    torch: str = ""
    tensorflow: str = ""


class Differences(msgspec.Struct, frozen=True):
    """How two machines differ, as sentences."""

    refused: tuple[str, ...] = ()
    """What must be equal and is not."""

    told: tuple[str, ...] = ()
    """What may differ, but a person should know."""


def own_versions() -> Versions:
    """Return the versions here; they are read from files, and nothing is imported."""
    installed = installed_for()
    return Versions(
        python=platform.python_version(),
        ray=ray_version(),
        traindeck=version(),
        torch=installed.torch.version if installed.torch else "",
        tensorflow=installed.tensorflow.version if installed.tensorflow else "",
    )


def ray_version() -> str:
    """Return the version of Ray that is installed here; empty if it is not."""
    import importlib.metadata  # slow, and only a cluster needs it

    try:
        return importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return ""


def differences(here: Versions, there: Versions, place: str) -> Differences:
    """Return how the versions of this machine differ from those on the machine `place`.

    Ray and Traindeck must be equal, Python in its first two numbers, and a framework, where both
    have it, in all but its build (`+cpu`).
    """
    refused, told = [], []
    for name, title in _TITLES.items():
        ours, theirs = getattr(here, name), getattr(there, name)
        if ours == theirs:
            continue
        if not (ours and theirs):
            has, lacks = (place, "this machine") if theirs else ("this machine", place)
            told.append(f"{title} {ours or theirs} is on {has}, and not on {lacks}.")
        elif _compared(name, ours) != _compared(name, theirs):
            refused.append(f"{title} is {ours} here, and {theirs} on {place}.")
        else:
            told.append(f"{title} is {ours} here, and {theirs} on {place}.")
    return Differences(tuple(refused), tuple(told))


def _compared(name: str, version: str) -> str:
    """Return the part of a version that must be equal."""
    if name == "python":
        return ".".join(version.split(".")[:2])
    return version.partition("+")[0] if name in _FRAMEWORKS else version
