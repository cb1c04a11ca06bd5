from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.environments.installed import (
    Installed,
    installed_for,
    loaded_libraries,
    loaded_mix_problem,
    python_version,
    site_folders,
)
from tests.engine.environments.conftest import Install
from tests.support.sentences import sentence

CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"
NCCL = "nvidia/nccl/lib/libnccl.so.2"
TORCH_VERSION = """
__version__ = '2.13.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
hip: Optional[str] = None
"""
BUILD_INFO = """
build_info = collections.OrderedDict([('cpu_compiler', 'clang'),
('cuda_compute_capabilities', ['sm_60', 'compute_90']), ('cuda_version', '12.5.1'),
('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False)])
"""


def _maps(*paths: Path) -> str:
    lines = [f"7f00-7f01 r-xp 00000000 08:01 42                         {path}" for path in paths]
    return "\n".join(["7f02-7f03 rw-p 00000000 00:00 0 ", *lines])


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_builds_of_the_frameworks_are_read_without_an_import(
    site: Path, install: Install
) -> None:
    install("torch", "2.13.0")
    install("tensorflow", "2.21.0")
    install("nvidia-cudnn-cu12", "9.3.0.75")
    install("nvidia-cudnn-cu13", "9.20.0")
    _write(site / "torch" / "version.py", TORCH_VERSION)
    _write(site / "tensorflow" / "python" / "platform" / "build_info.py", BUILD_INFO)
    installed = installed_for(str(site.parents[2] / "bin" / "python"))
    assert installed.torch == ("2.13.0+cu130", "13.0", "", "")
    found = installed.tensorflow
    assert found is not None
    assert (found.version, found.variant, found.cuda) == ("2.21.0", "tensorflow", "12.5.1")
    assert found.compute_capabilities == ("sm_60", "compute_90")
    assert [each.name for each in found.libraries] == ["nvidia-cudnn-cu12"]


def test_a_build_without_gpus_has_no_cuda(site: Path, install: Install) -> None:
    install("tensorflow_cpu", "2.21.0")
    _write(
        site / "torch" / "version.py", "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
    )
    text = BUILD_INFO.replace("True", "False")
    _write(site / "tensorflow" / "python" / "platform" / "build_info.py", text)
    installed = Installed([site])
    assert installed.torch == ("2.13.0+cpu", "", "", "")
    found = installed.tensorflow
    assert found is not None
    assert (found.variant, found.cuda, found.compute_capabilities) == ("tensorflow-cpu", "", ())


def test_what_is_not_installed_is_absent(tmp_path: Path) -> None:
    installed = Installed([tmp_path, tmp_path / "missing"])
    assert installed.torch is None
    assert installed.tensorflow is None
    assert installed.version("torch") == ""
    assert installed.mix_problem() == ""


def test_this_python_has_what_is_imported_here() -> None:
    import msgspec

    assert installed_for().version("msgspec") == msgspec.__version__


@pytest.mark.usefixtures("processes")
def test_the_folders_of_packages_are_those_that_python_says() -> None:
    asked = "import sys, sysconfig as s; print(*sys.version_info[:2], s.get_path('purelib'))"
    words = [sys.executable, "-sc", asked]
    major, minor, folder = subprocess.run(words, capture_output=True, text=True).stdout.split()
    assert python_version(Path(sys.executable)) == (int(major), int(minor))
    assert Path(folder) in site_folders(Path(sys.executable))


def test_the_packages_of_the_base_python_count_where_the_environment_takes_them(
    tmp_path: Path, site: Path
) -> None:
    base = tmp_path / "base" / "lib" / "python3.12" / "site-packages"
    base.mkdir(parents=True)
    environment = site.parents[2]
    python = environment / "bin" / "python"
    assert site_folders(python) == [site]
    settings = f"home = {tmp_path / 'base' / 'bin'}\ninclude-system-site-packages = true\n"
    (environment / "pyvenv.cfg").write_text(settings)
    assert site_folders(python) == [site, base]


def test_two_wheels_that_own_one_library_are_a_mix(site: Path, install: Install) -> None:
    install("nvidia-cudnn-cu12", "9.3.0.75", {CUDNN: b"of CUDA 12"})
    install("nvidia-nccl-cu12", "2.27.7", {NCCL: b"of CUDA 12"})
    assert Installed([site]).mix_problem() == ""
    install("nvidia-cudnn-cu13", "9.20.0", {CUDNN: b"of CUDA 13"})
    shared = Installed([site]).shared_libraries()
    assert [(each.file, str(each.content)) for each in shared] == [
        (site / CUDNN, "nvidia-cudnn-cu13 9.20.0")
    ]
    text = Installed([site]).mix_problem()
    assert "nvidia-cudnn-cu12 9.3.0.75 and nvidia-cudnn-cu13 9.20.0 own the same" in text
    assert sentence("are-those-of-nvidia-cudnn-cu13") in text


def test_a_library_that_was_replaced_by_hand_is_of_no_wheel(site: Path, install: Install) -> None:
    install("nvidia-nccl-cu12", "2.27.7", {NCCL: b"of CUDA 12"})
    install("nvidia-nccl-cu13", "2.28.9", {NCCL: b"of CUDA 13"})
    (site / NCCL).write_bytes(b"another one")
    assert [each.content for each in Installed([site]).shared_libraries()] == [None]


def test_the_loaded_libraries_are_found_in_the_maps(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    wanted = [folder / "libcudnn.so.9", folder / "libcudnn_cnn.so.9", folder / "libnccl.so.2"]
    text = _maps(*wanted, *wanted, folder / "libc.so.6")
    assert loaded_libraries(text) == sorted(wanted)
    assert loaded_libraries(text.replace("libnccl.so.2", "libnccl.so.2 (deleted)")) == sorted(
        wanted
    )


def test_a_loaded_library_of_another_cuda_version_is_named(site: Path, install: Install) -> None:
    install("nvidia-cudnn-cu12", "9.3.0.75", {CUDNN: b"of CUDA 12"})
    install("nvidia-cudnn-cu13", "9.20.0", {CUDNN: b"of CUDA 13"})
    maps = _maps(site / CUDNN)
    assert loaded_mix_problem(Installed([site]), "13.0", maps) == ""
    text = loaded_mix_problem(Installed([site]), "12.5.1", maps)
    assert sentence("belongs-to-nvidia-cudnn-cu12") in text
    assert sentence("is-that-of-nvidia-cudnn-cu13") in text
    assert loaded_mix_problem(Installed([site]), "", maps) == ""
    assert (
        loaded_mix_problem(Installed([site]), "12.5.1", _maps(Path("/usr/lib/libcudnn.so.9"))) == ""
    )


def test_the_only_wheel_may_be_of_another_cuda_version(site: Path, install: Install) -> None:
    install("nvidia-nccl-cu13", "2.28.9", {NCCL: b"of CUDA 13"})
    text = loaded_mix_problem(Installed([site]), "12.5.1", _maps(site / NCCL))
    assert "libnccl.so.2 is that of nvidia-nccl-cu13 2.28.9" in text
