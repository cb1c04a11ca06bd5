"""Why an installed framework cannot use GPUs of a maker at all, told before a run starts."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.environments.activation import environment_folder
from engine.environments.installed import ROCM_TENSORFLOW, Installed, installed_for
from engine.environments.needs import FRAMEWORKS, ON_GPUS, install_words
from engine.system.program import call

TORCH = FRAMEWORKS["torch"][0]

TENSORFLOW_GPU = "tensorflow-gpu"
"""The name that is suggested for the environment in which TensorFlow uses GPUs."""

_LINKER_CACHE = Path("/etc/ld.so.cache")
_CUDA_FOLDERS = (
    "/usr/local/cuda*/lib64",
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/opt/cuda/lib64",
)


def gpu_problem(framework: str, interpreter: str = "", maker: str = "NVIDIA") -> str:
    """Return why the framework of the Python at `interpreter` cannot use GPUs, with the command
    that installs another build; empty: nothing is known against it. Imports nothing.

    `framework`: that of a strategy. Of TensorFlow, `tensorflow_problem` knows more.
    `interpreter` empty: the Python of this process.
    """
    if framework != "torch":
        return ""
    return torch_problem(installed_for(interpreter), interpreter, maker)


def torch_problem(installed: Installed, interpreter: str = "", maker: str = "NVIDIA") -> str:
    """Return why the installed PyTorch cannot use GPUs of a maker; empty if it can, or is
    missing."""
    build = installed.torch
    if build is None or build.serves(maker):
        return ""
    text = f"PyTorch {build.version} is built for {build.target or 'CPUs'} "
    text += f"and cannot use GPUs of {maker}."
    if maker != "NVIDIA":
        return f"{text} {other_build_remedy(maker)}, or choose the CPU."
    if not (build.hip or build.xpu):
        text = f"PyTorch {build.version} was built without CUDA and cannot use GPUs."
    command = reinstall_command(TORCH, interpreter)
    return f"{text} `{command}` installs the build that can, or choose the CPU."


def other_build_remedy(maker: str) -> str:
    """Return which build of PyTorch GPUs of AMD or Intel need, without the stop."""
    kind = {"AMD": "ROCm", "Intel": "XPU"}[maker]
    return f"Install the build of PyTorch for {kind} (pytorch.org says how)"


def tensorflow_problem(
    installed: Installed, *, has_system_cuda: bool, maker: str = "NVIDIA"
) -> str:
    """Return why the installed TensorFlow sees no GPU of a maker, in a sentence; empty if it may
    see them, or is missing. `has_system_cuda`: see the function of this name."""
    build = installed.tensorflow
    if build is not None and maker != "NVIDIA":
        if (build.variant, maker) == (ROCM_TENSORFLOW, "AMD"):
            return ""
        return f"TensorFlow {build.version} is the ordinary build, which uses no GPU of {maker}."
    if build is None or build.libraries or (build.cuda and has_system_cuda):
        return ""
    if not build.cuda:
        return f"TensorFlow {build.version} was built without CUDA and cannot use GPUs."
    return (
        f"TensorFlow {build.version} is built for CUDA {build.cuda}, whose libraries are missing: "
        "it runs on the CPU only."
    )


def tensorflow_remedy() -> str:
    """Return the sentence with the commands that give TensorFlow an environment for GPUs."""
    made = call(f"env add {TENSORFLOW_GPU} --create '{ON_GPUS['tensorflow']}'")
    used = call(f"env use {TENSORFLOW_GPU} --for tensorflow")
    return (
        f"`{made}` makes an environment in which it can, and `{used}` lets all runs of TensorFlow "
        "use that."
    )


def has_system_cuda(
    installed: Installed, interpreter: str = "", environment: Mapping[str, str] | None = None
) -> bool:
    """Whether the CUDA libraries that TensorFlow is built for lie where programs find them: in the
    system's folders, or in an environment of conda. `environment` None: that of this process."""
    build = installed.tensorflow
    if build is None or not build.cuda:
        return False
    names = [f"libcudart.so.{build.cuda.partition('.')[0]}"]
    names += [f"libcudnn.so.{build.cudnn.partition('.')[0]}"] if build.cudnn else []
    try:
        cache = _LINKER_CACHE.read_bytes()
    except OSError:
        cache = b""
    folders = list(
        _library_folders(interpreter, os.environ if environment is None else environment)
    )
    return all(
        os.fsencode(name) in cache or any((folder / name).exists() for folder in folders)
        for name in names
    )


def _library_folders(interpreter: str, environment: Mapping[str, str]) -> Iterator[Path]:
    if interpreter:
        yield environment_folder(Path(interpreter)) / "lib"
    yield from map(Path, filter(None, environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)))
    for pattern in _CUDA_FOLDERS:
        yield from Path("/").glob(pattern.lstrip("/"))


def reinstall_command(requirement: str, interpreter: str = "") -> str:
    """Return the command that replaces what is installed, also by another build of its version."""
    words = install_words(Path(interpreter or sys.executable))
    again = "--reinstall" if words[0] == "uv" else "--force-reinstall"
    return shlex.join([*words, again, requirement])
