"""Compiles the double's library."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pynvml

SOURCES = sorted(Path(__file__).parent.glob("*.[ch]"))
LIBRARY = "libnvidia-ml.so.1"

_STRUCTURES = {
    "MEMORY": pynvml.c_nvmlMemory_t,
    "MEMORY_V2": pynvml.c_nvmlMemory_v2_t,
    "TEMPERATURE": pynvml.c_nvmlTemperature_v1_t,
    "PCI": pynvml.nvmlPciInfo_t,
    "PROCESS": pynvml.c_nvmlProcessInfo_v3_t,
    "UTILISATION": pynvml.c_nvmlUtilization_t,
    "FIELD": pynvml.c_nvmlFieldValue_t,
}
"""What the double and pynvml must agree about; the compiler refuses where they do not."""


def build_library(old_driver: bool = False) -> Path:
    """The folder that holds the compiled double; compiled once per version of the source.

    Raises RuntimeError where there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("The tests of the GPU telemetry need a C compiler: install gcc.")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    flags += ["-Wl,-Bsymbolic"]  # its own functions, whatever the program calls its
    flags += [f"-DSIZE_OF_{name}={ctypes.sizeof(kind)}" for name, kind in _STRUCTURES.items()]
    flags += ["-DOLD_DRIVER"] if old_driver else []
    content = [" ".join(flags).encode(), *(source.read_bytes() for source in SOURCES)]
    digest = hashlib.sha256(b"".join(content)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"traindeck-fake-nvml-{os.getuid()}-{digest}"
    library = folder / LIBRARY
    if not library.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        temporary = folder / f"{LIBRARY}.{os.getpid()}"
        units = [str(source) for source in SOURCES if source.suffix == ".c"]
        soname = f"-Wl,-soname,{LIBRARY}"
        subprocess.run([compiler, *flags, soname, *units, "-o", str(temporary)], check=True)
        temporary.replace(library)
    return folder
