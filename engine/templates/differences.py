"""In what a run differs from a template, so that its workers start cold.

A forked worker cannot change the environment variables that Python and the frameworks read when
they are started or imported. Every other variable is read later, or set through an interface of its
library. It also has what the shell of the template has set, and not that of the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from engine.templates.protocol import INSTALLATION, Fork

_PREFIXES = (
    *("PYTHON", "LD_", "MALLOC_", "GLIBC_", "JE_MALLOC", "TCMALLOC"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NUMEXPR_", "NPY_"),
    *("DNNL_", "ONEDNN_", "ATEN_", "C10_", "TORCH", "PYTORCH", "TF_", "TENSORFLOW_", "TF2_"),
    *("MKLDNN_", "KINETO_", "JOBLIB_", "LOKY_", "HDF5_", "H5PY_", "OPENSSL_", "WRAPT_"),
    *("PROTOCOL_BUFFERS_", "XLA_", "KERAS_", "ABSL_", "GRPC_", "GLOG_", "TRITON_"),
    *("SKLEARN_", "SCIPY_"),
)
_NAMES = frozenset({"HOME"})  # Keras reads its settings in it

CONTROL_GROUP = "control group"
"""The workers of a run that has one of its own enter it, whatever that of the template is."""

_SET_AFTERWARDS = frozenset(
    {
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "MKL_NUM_THREADS"),
        "KERAS_TORCH_DEVICE",
        "TF_CONFIG",
    }
)
"""Variables that a worker sets afterwards, or that are read when a device is first used."""


def read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that cannot be changed after the imports."""
    return {
        name: value
        for name, value in environment.items()
        if (name in _NAMES or name.startswith(_PREFIXES)) and name not in _SET_AFTERWARDS
    }


def of_shell() -> dict[str, str]:
    """Return what a user sets for all programs of a shell or a container, by its name.

    Only on Linux. Raises OSError where /proc is not there.
    """
    import resource  # not on Windows

    soft = {
        f"limit {name} (ulimit)": str(resource.getrlimit(number)[0])
        for name, number in vars(resource).items()
        if name.startswith("RLIMIT_")
    }
    spaces = [str(Path("/proc/self/ns", name).readlink()) for name in ("mnt", "net", "pid", "user")]
    root = Path("/").stat()
    lines = Path("/proc/self/status").read_text().splitlines()
    return soft | {
        "user": f"{os.geteuid()}:{os.getegid()}",
        "container": f"{spaces} {root.st_dev}:{root.st_ino}",
        CONTROL_GROUP: Path("/proc/self/cgroup").read_text(),
        "set of processors (taskset)": str(sorted(os.sched_getaffinity(0))),
        "priority (nice)": str(os.getpriority(os.PRIO_PROCESS, 0)),
        "umask": next((line for line in lines if line.startswith("Umask:")), ""),
    }


def difference(request: Fork, variables: Mapping[str, str]) -> str:
    """Return in what a run differs from this process, which began with the environment `variables`;
    empty if in nothing."""
    if request.installation != INSTALLATION:
        return f"another installation, {request.installation[1]}"
    wanted, own = read_at_import(request.environment), read_at_import(variables)
    differing = (name for name in own.keys() | wanted if own.get(name) != wanted.get(name))
    if name := min(differing, default=""):
        return f"another value of {name}, which is read only once"
    shell = of_shell()
    differing = (name for name, value in request.shell.items() if shell.get(name) != value)
    name = min(differing, default="")
    return f"another {name}" if name else ""
