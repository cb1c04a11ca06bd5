"""Which environment variables must be equal in a template and in its workers."""

from __future__ import annotations

import pytest

from engine.templates.import_environment import difference, read_at_import


@pytest.mark.parametrize(
    "name",
    [
        *("PYTHONPATH", "LD_PRELOAD", "OMP_PROC_BIND", "MKL_DYNAMIC", "TORCH_LOGS", "TF_XLA_FLAGS"),
        *("PYTORCH_CUDA_ALLOC_CONF", "KERAS_HOME", "HOME", "LD_LIBRARY_PATH", "KINETO_LOG_LEVEL"),
    ],
)
def test_what_is_read_at_the_import_must_be_equal(name: str) -> None:
    assert difference({name: "a"}, {name: "b"}) == name
    assert difference({}, {name: "b"}) == name
    assert difference({name: "a"}, {}) == name
    assert difference({name: "a"}, {name: "a"}) == ""


@pytest.mark.parametrize(
    "name",
    [
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "KERAS_TORCH_DEVICE"),
        *("CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG", "NCCL_DEBUG", "RANK", "PATH"),
        *("TF_CONFIG", "TRAINDECK_RESUME", "LS_COLORS", "TMPDIR", "TZ", "LANG", "LC_ALL"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "XDG_CACHE_HOME"),
    ],
)
def test_what_is_read_or_set_later_may_differ(name: str) -> None:
    assert difference({name: "a"}, {name: "b"}) == ""
    assert read_at_import({name: "a"}) == {}


def test_the_first_difference_is_named() -> None:
    assert difference({"TF_A": "a", "LD_A": "a"}, {"TF_A": "b", "LD_A": "b"}) == "LD_A"
