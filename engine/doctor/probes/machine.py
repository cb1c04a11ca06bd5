"""Looks for what `torch.compile` and loaders need: a compiler, Python's headers, shared memory."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

_PROGRAM = "#include <Python.h>\nint answer(void) { return PY_MAJOR_VERSION; }\n"


def facts(arguments: list[str]) -> dict[str, Any]:
    """Return what is known; `arguments`: the folder of shared memory."""
    include = sysconfig.get_paths()["include"]
    c, error = _compiles("CC", ("cc", "gcc", "clang"), "c", include)
    cpp, cpp_error = _compiles("CXX", ("c++", "g++", "clang++"), "cpp", include)
    shared = Path(arguments[0] if arguments else "/dev/shm")
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "headers": (Path(include) / "Python.h").is_file(),
        "include": include,
        "c_compiler": c,
        "c_error": error,
        "cpp_compiler": cpp,
        "cpp_error": cpp_error,
        "shared_memory": shutil.disk_usage(shared).total if shared.is_dir() else -1,
        "shared_memory_free": shutil.disk_usage(shared).free if shared.is_dir() else -1,
    }


def _compiles(variable: str, names: tuple[str, ...], suffix: str, include: str) -> tuple[str, str]:
    """Return a compiler, and its first complaint about a module for this Python."""
    candidates = (os.environ.get(variable, "").split(" ")[0], *names)
    compiler = next((found for name in candidates if name and (found := shutil.which(name))), "")
    if not compiler:
        return "", ""
    with tempfile.TemporaryDirectory(prefix="traindeck-doctor-") as folder:
        source = Path(folder) / f"module.{suffix}"
        source.write_text(_PROGRAM)
        words = [
            compiler,
            "-fPIC",
            "-shared",
            f"-I{include}",
            str(source),
            "-o",
            f"{folder}/module",
        ]
        try:
            result = subprocess.run(words, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return compiler, str(error)
    lines = [line for line in result.stderr.splitlines() if "error" in line.lower()]
    return compiler, "" if result.returncode == 0 else (lines or ["it failed"])[0][:300]
