"""In what a run may differ from a template, and in what not."""

from __future__ import annotations

import os

import pytest

from engine.processes.process import ON_LINUX
from engine.templates.differences import difference, of_shell, read_at_import
from engine.templates.protocol import Fork

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="of Linux")


def found(template: dict[str, str], run: dict[str, str]) -> str:
    """In what a run differs from a template with these variables."""
    return difference(Fork("m", [], run, "/", "/log", of_shell()), template)


@pytest.mark.parametrize(
    "name",
    [
        *("PYTHONPATH", "LD_PRELOAD", "OMP_PROC_BIND", "MKL_DYNAMIC", "TORCH_LOGS", "TF_XLA_FLAGS"),
        *("PYTORCH_CUDA_ALLOC_CONF", "KERAS_HOME", "HOME", "LD_LIBRARY_PATH", "KINETO_LOG_LEVEL"),
    ],
)
def test_what_is_read_at_the_import_must_be_equal(name: str) -> None:
    told = f"another value of {name}, which is read only once"
    assert found({name: "a"}, {name: "b"}) == told
    assert found({}, {name: "b"}) == told
    assert found({name: "a"}, {}) == told
    assert found({name: "a"}, {name: "a"}) == ""


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
    assert found({name: "a"}, {name: "b"}) == ""
    assert read_at_import({name: "a"}) == {}


def test_what_the_shell_of_a_run_sets_must_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = of_shell()
    for name in shell:
        run = Fork("m", [], {}, "/", "/log", shell | {name: "another"})
        assert difference(run, {}) == f"another {name}"
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(os, "getpriority", lambda *_: niceness + 5)
    assert of_shell()["priority (nice)"] == str(niceness + 5)


def test_a_run_with_a_control_group_of_its_own_may_have_another_one_than_the_template() -> None:
    shell = of_shell()
    del shell["control group"]
    assert difference(Fork("m", [], {}, "/", "/log", shell), {}) == ""
