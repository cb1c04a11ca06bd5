"""Compiles `imagined_cuda.cpp` against the installed PyTorch; imports nothing of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("imagined_cuda.cpp")


def missing() -> str:
    """Return why the library cannot be compiled here; empty: it can."""
    if shutil.which("g++") is None:
        return "needs g++, which compiles the imagined GPUs"
    if "+cpu" not in importlib.metadata.version("torch"):
        return "needs a PyTorch without CUDA (+cpu), in which GPUs can be imagined"
    if not (_torch() / "include" / "ATen" / "detail" / "CUDAHooksInterface.h").exists():
        return "needs the C++ headers of PyTorch"
    return ""


def built() -> Path:
    """Return the compiled library; it is kept in the temporary folder, one per version of PyTorch.

    Raises CalledProcessError, with the compiler's words in `stderr`.
    """
    version = importlib.metadata.version("torch")
    content = SOURCE.read_bytes() + str(_torch()).encode() + version.encode()
    folder = Path(tempfile.gettempdir()) / f"traindeck-imagined-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    library = folder / f"{version}-{hashlib.sha256(content).hexdigest()[:16]}.so"
    if library.exists():
        return library
    libraries = _torch() / "lib"
    handle, name = tempfile.mkstemp(suffix=".so", dir=folder)  # two tests may compile at once
    os.close(handle)
    try:
        subprocess.run(
            [
                *("g++", "-std=c++20", "-O0", "-shared", "-fPIC", f"-I{_torch() / 'include'}"),
                *(str(SOURCE), "-o", name),
                *(f"-L{libraries}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}"),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        Path(name).replace(library)
    finally:
        Path(name).unlink(missing_ok=True)
    return library


def _torch() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
