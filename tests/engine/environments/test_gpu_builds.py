"""Whether TensorFlow finds the libraries of CUDA, and what is said if it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.environments import gpu_builds
from engine.environments.gpu_builds import has_system_cuda, tensorflow_problem
from engine.environments.installed import Installed
from engine.spec.worker_python import tensorflow_gpu_problem
from engine.telemetry.gpu_makers import GpuMaker
from tests.engine.environments.conftest import Install
from tests.support.sentences import sentence

BUILD = {
    "tensorflow/python/platform/build_info.py": b"build_info = OrderedDict([('cuda_version', "
    b"'12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True)])"
}


@pytest.fixture(autouse=True)
def no_cuda_in_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_builds, "_CUDA_FOLDERS", ())
    monkeypatch.setattr(gpu_builds, "_LINKER_CACHE", tmp_path / "ld.so.cache")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def test_the_libraries_of_the_system_are_found(
    site: Path, install: Install, tmp_path: Path
) -> None:
    install("tensorflow", "2.21.0", BUILD)
    installed = Installed([site])
    given = {"LD_LIBRARY_PATH": f":{tmp_path / 'cuda'}"}
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "libcudart.so.12").touch()
    assert not has_system_cuda(installed, environment=given)  # it sees no GPU without cuDNN
    (tmp_path / "ld.so.cache").write_bytes(b"\0libcudnn.so.9\0/usr/lib/libcudnn.so.9\0")
    assert has_system_cuda(installed, environment=given)
    assert not has_system_cuda(installed, environment={})
    python = site.parents[2] / "bin" / "python"
    (site.parents[1] / "libcudart.so.12").touch()  # as in an environment of conda
    assert has_system_cuda(installed, str(python), {})


def test_the_form_and_the_doctor_say_the_same(site: Path, install: Install) -> None:
    install("tensorflow", "2.21.0", BUILD)
    said = tensorflow_problem(Installed([site]), has_system_cuda=False)
    assert sentence("libraries-of-its-cuda-are-missing") in said
    refused = tensorflow_gpu_problem(str(site.parents[2] / "bin" / "python"))
    assert refused.startswith(said)
    assert "env use tensorflow-gpu --for tensorflow` lets all runs" in refused
    install("nvidia-cudnn-cu12", "9.3")
    assert tensorflow_gpu_problem(str(site.parents[2] / "bin" / "python")) == ""


@pytest.mark.parametrize("maker", ["AMD", "Intel"])
def test_cards_of_other_makers_are_refused_at_the_check(
    site: Path, install: Install, maker: GpuMaker
) -> None:
    """CUDA's libraries change nothing, and no environment for CUDA is offered."""
    install("tensorflow", "2.21.0", BUILD)
    install("nvidia-cudnn-cu12", "9.3")
    python = str(site.parents[2] / "bin" / "python")
    refused = tensorflow_gpu_problem(python, maker)
    assert f"no GPU of {maker}" in refused
    assert "env use" not in refused
    (site / "torch").mkdir()
    (site / "torch" / "version.py").write_text("__version__ = '2.13.0+cu130'\ncuda = '13.0'\n")
    assert f"GPUs of {maker}" in gpu_builds.gpu_problem("torch", python, maker)
    assert gpu_builds.gpu_problem("torch", python) == ""
