"""Templates of the frameworks touch no device and take little memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pynvml
import pytest

from engine.templates import client
from engine.templates.client import ANSWER_SECONDS
from engine.templates.kinds import KINDS
from engine.templates.protocol import TemplateState
from tests.engine.templates.conftest import until

LARGEST_MEMORY = 512 * 2**20
"""Bytes that a template may keep: with PyTorch for CUDA, one had 438 MiB."""

DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned int flags)
{
    FILE *file = fopen(getenv("CALLS_OF_CUINIT"), "a");
    if (file != NULL) {
        fprintf(file, "%u\n", flags);
        fclose(file);
    }
    return 100; /* CUDA_ERROR_NO_DEVICE */
}

int cuDriverGetVersion(int *version)
{
    *version = 12080;
    return 0;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a double of the CUDA driver, which notes when it is initialised."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    library = folder / "libcuda.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "driver.c", "-o", str(library)], cwd=folder, check=True
    )
    return folder


@pytest.fixture(
    params=[
        pytest.param(kind, marks=[] if kind == "torch" else pytest.mark.nightly) for kind in KINDS
    ]
)
def template(
    request: pytest.FixtureRequest,
    processes: None,
    own_templates: Path,
    driver: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> TemplateState:
    """A template of each kind, on a machine with a CUDA driver."""
    others = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{driver}:{others}" if others else str(driver))
    monkeypatch.setenv("CALLS_OF_CUINIT", str(tmp_path / "calls"))
    client.start(KINDS[request.param])
    [state] = until(client.states, ANSWER_SECONDS)
    return state


def test_a_template_touches_no_device_and_keeps_little_memory(
    template: TemplateState, tmp_path: Path
) -> None:
    assert template.problem == ""
    assert not (tmp_path / "calls").exists(), "cuInit was called"
    rollup = Path(f"/proc/{template.pid}/smaps_rollup").read_text().splitlines()
    memory = {line.split()[0]: int(line.split()[1]) * 1024 for line in rollup[1:]}
    assert memory["Anonymous:"] < LARGEST_MEMORY


def test_the_double_of_the_driver_notes_when_it_is_initialised(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLS_OF_CUINIT", str(tmp_path / "calls"))
    assert ctypes.CDLL(str(driver / "libcuda.so.1")).cuInit(0) != 0
    assert (tmp_path / "calls").read_text() == "0\n"


@pytest.mark.gpu
def test_a_template_holds_no_memory_of_a_gpu(processes: None, own_templates: Path) -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pytest.skip(f"no NVIDIA GPU: {error}")
    for kind in KINDS.values():
        client.start(kind)
    states = until(lambda: len(ready := client.states()) == len(KINDS) and ready, ANSWER_SECONDS)
    holders = set()
    for index in range(pynvml.nvmlDeviceGetCount()):
        device = pynvml.nvmlDeviceGetHandleByIndex(index)
        for processes_of in (
            pynvml.nvmlDeviceGetComputeRunningProcesses,
            pynvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            with contextlib.suppress(pynvml.NVMLError_NotSupported):
                holders |= {process.pid for process in processes_of(device)}
    assert not holders & {state.pid for state in states}
    for state in states:
        links = [_link(entry) for entry in Path(f"/proc/{state.pid}/fd").iterdir()]
        assert not [link for link in links if link.startswith("/dev/nvidia")]


def _link(entry: Path) -> str:
    with contextlib.suppress(OSError):
        return str(entry.readlink())
    return ""
