"""The environment variables that Python and the frameworks read when they are started or imported.

A forked worker cannot change what was read already, so such variables must be equal in the template
and in the run. Every other variable is read later, or set through an interface of its library.
"""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES = (
    *("PYTHON", "LD_", "MALLOC_", "GLIBC_", "JE_MALLOC", "TCMALLOC"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NUMEXPR_", "NPY_"),
    *("DNNL_", "ONEDNN_", "ATEN_", "C10_", "TORCH", "PYTORCH", "TF_", "TENSORFLOW_", "TF2_"),
    *("MKLDNN_", "KINETO_", "JOBLIB_", "LOKY_", "HDF5_", "H5PY_", "OPENSSL_", "WRAPT_"),
    *("PROTOCOL_BUFFERS_", "XLA_", "KERAS_", "ABSL_", "GRPC_", "GLOG_", "TRITON_"),
    *("SKLEARN_", "SCIPY_"),
)
_NAMES = frozenset({"HOME"})  # Keras reads its settings in it

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


def difference(template: Mapping[str, str], worker: Mapping[str, str]) -> str:
    """Return the name of a variable that must be equal and is not; empty if there is none."""
    first, second = read_at_import(template), read_at_import(worker)
    differing = (name for name in first.keys() | second if first.get(name) != second.get(name))
    return min(differing, default="")
