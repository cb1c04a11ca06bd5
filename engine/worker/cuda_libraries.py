"""Names the libraries of CUDA that this worker has loaded and that are not its framework's."""

from __future__ import annotations

from engine.environments.installed import (
    Installed,
    installed_for,
    loaded_libraries,
    loaded_mix_problem,
)


def loaded_mix(package: str, installed: Installed | None = None, maps: str | None = None) -> str:
    """Return which loaded libraries belong to another CUDA version, in a sentence; empty: none.

    `package`: `torch` or `tensorflow`. `installed` and `maps`: see `engine.environments.installed`.
    """
    if not loaded_libraries(maps):
        return ""
    installed = installed or installed_for()
    build = installed.torch if package == "torch" else installed.tensorflow
    return loaded_mix_problem(installed, build.cuda, maps) if build else ""
