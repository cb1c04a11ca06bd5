"""What is said of the frameworks' builds, for old and new cards and drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.builds import kernel_for, mix_check, tensorflow_checks, torch_checks
from engine.doctor.facts import DriverFacts, GpuFacts
from engine.doctor.finding import Finding
from engine.environments.gpu_builds import gpu_problem
from engine.environments.installed import Installed
from tests.support.sentences import sentence

TORCH = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
"""Of PyTorch 2.13 for CUDA 13.0, as it is on the index."""

TENSORFLOW = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")
"""Of TensorFlow 2.21, built with CUDA 12.5."""


def machine(*capabilities: tuple[int, int], driver: str = "580.95.05") -> DriverFacts:
    gpus = [
        GpuFacts(index=index, uuid=f"GPU-{index}", name="Card", capability=capability)
        for index, capability in enumerate(capabilities)
    ]
    return DriverFacts(driver=driver, gpus=tuple(gpus))


def torch_of(folder: Path, version: str, cuda: str = "", hip: str = "", xpu: str = "") -> Installed:
    (folder / "torch").mkdir(exist_ok=True)
    lines = [f"__version__ = '{version}'", f"cuda: Optional[str] = {cuda or None!r}"]
    lines.append(f"hip: Optional[str] = {hip or None!r}")
    lines += [f"xpu: Optional[str] = {xpu!r}"] if xpu else []  # older builds lack the line
    (folder / "torch" / "version.py").write_text("\n".join(lines))
    return Installed([folder])


def tensorflow_of(folder: Path, *, cuda: bool = True, wheels: tuple[str, ...] = ()) -> Installed:
    platform = folder / "tensorflow/python/platform"
    platform.mkdir(parents=True)
    build = [("cuda_compute_capabilities", list(TENSORFLOW)), ("cuda_version", "12.5.1")]
    build += [("cudnn_version", "9"), ("is_cuda_build", cuda)]
    (platform / "build_info.py").write_text(f"build_info = collections.OrderedDict({build})")
    (folder / "tensorflow-2.21.0.dist-info").mkdir()
    for wheel in wheels:
        (folder / f"{wheel}.dist-info").mkdir()
    return Installed([folder])


@pytest.mark.parametrize(
    ("kernels", "capability", "how"),
    [
        (TORCH, (6, 1), ""),
        (TORCH, (7, 0), ""),
        (TORCH, (7, 5), "compiled"),
        (TORCH, (8, 9), "compiled"),
        (TORCH, (12, 0), "compiled"),
        (TORCH, (12, 1), "compiled"),
        (TORCH, (11, 0), ""),
        (TENSORFLOW, (5, 2), ""),
        (TENSORFLOW, (6, 1), "compiled"),
        (TENSORFLOW, (7, 5), "compiled"),
        (TENSORFLOW, (9, 0), "PTX"),
        (TENSORFLOW, (12, 0), "PTX"),
        (("sm_90a", "sm_100f"), (9, 0), "compiled"),
        (("sm_90a",), (9, 1), ""),
        (("sm_100f",), (10, 3), "compiled"),
        (("compute_90a",), (10, 0), ""),
    ],
)
def test_a_kernel_runs_on_cards_of_its_family(
    kernels: tuple[str, ...], capability: tuple[int, int], how: str
) -> None:
    assert kernel_for(kernels, capability) == how


def only(checks: list[Finding]) -> Finding:
    [check] = checks
    return check


def test_the_torch_of_the_index_needs_a_new_driver_and_a_card_from_sm_75_on(tmp_path: Path) -> None:
    installed = torch_of(tmp_path, "2.13.0", "13.0")
    assert only(torch_checks(installed, machine((12, 0)), "", TORCH)).level == "ok"
    old = only(torch_checks(installed, machine((9, 0), driver="570.86.15"), "", TORCH))
    assert old.level == "error"
    assert sentence("cuda-which-needs-driver-or-newer") in old.text
    assert "570.86.15" in old.text
    assert sentence("update-nvidia-driver") in old.advice
    card = only(torch_checks(installed, machine((6, 1)), ""))  # without its import
    assert (card.name, card.level) == ("PyTorch for GPU 0", "error")
    assert sentence("leaves-out-cards-before-gpu-card") in card.text
    assert "CUDA 12.6" in card.advice
    [one] = torch_checks(installed, machine((9, 0), (11, 0)), "", TORCH)
    assert one.name == "PyTorch for GPU 1"
    assert "none for GPU 1 (Card, sm_110)" in one.text


def test_torch_without_cuda_beside_a_gpu_is_a_problem_with_a_command(tmp_path: Path) -> None:
    installed = torch_of(tmp_path, "2.13.0+cpu")
    assert only(torch_checks(installed, machine(), "")).level == "ok"
    check = only(torch_checks(installed, machine((9, 0)), "/env/bin/python"))
    assert check.level == "error"
    assert check.text == sentence("pytorch-was-built-without-cuda-on-gpu-machine")
    assert "/env/bin/python -m pip install --force-reinstall 'torch>=2.11,<2.15'" in check.advice


def test_torch_for_another_maker_or_none_at_all(tmp_path: Path) -> None:
    assert only(torch_checks(Installed([tmp_path]), machine((9, 0)), "")).level == "unknown"
    other = only(torch_checks(torch_of(tmp_path, "2.13.0", hip="6.3"), machine((9, 0)), ""))
    assert other.level == "error"
    assert "ROCm 6.3" in other.text


def test_tensorflow_has_no_kernels_for_the_newest_cards(tmp_path: Path) -> None:
    installed = tensorflow_of(tmp_path, wheels=("nvidia_cudnn_cu12-9.3",))
    assert only(tensorflow_checks(installed, machine((8, 6)), "")).level == "ok"
    hopper = tensorflow_checks(installed, machine((9, 0)), "")
    assert [check.level for check in hopper] == ["ok", "ok"]
    assert "at the first use" in hopper[1].text
    newest = only(tensorflow_checks(installed, machine((12, 0)), ""))
    assert newest.level == "error"
    assert sentence("no-kernels-for-gpu-card") in newest.text
    assert "PyTorch strategy" in newest.advice


def test_tensorflow_without_its_cuda_libraries_runs_on_the_cpu(tmp_path: Path) -> None:
    installed = tensorflow_of(tmp_path)
    without = only(tensorflow_checks(installed, machine((8, 6)), ""))
    assert without.level == "unknown"
    assert "libraries are missing" in without.text
    assert "env add tensorflow-gpu --create" in without.advice
    assert (
        only(tensorflow_checks(installed, machine((8, 6)), "", has_system_cuda=True)).level == "ok"
    )
    useless = only(tensorflow_checks(installed, machine((12, 0)), ""))
    assert useless.level == "error"  # an environment of its own would not help
    assert "no kernels for GPU 0" in useless.text


def test_tensorflow_for_the_cpu_is_named(tmp_path: Path) -> None:
    check = only(tensorflow_checks(tensorflow_of(tmp_path, cuda=False), machine((8, 6)), ""))
    assert check.level == "error"
    assert "was built without CUDA" in check.text


def test_a_run_on_a_gpu_is_refused_before_its_start(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    python = tmp_path / "bin" / "python"
    torch_of(site, "2.12.0+cpu")
    problem = gpu_problem("torch", str(python))
    assert problem.startswith(sentence("pytorch-was-built-without-cuda-and-cannot-use-gpus"))
    assert f"`{python} -m pip install --force-reinstall" in problem
    torch_of(site, "2.13.0", "13.0")  # the command was carried out
    assert gpu_problem("torch", str(python)) == ""
    assert gpu_problem("tf", str(python)) == ""
    assert gpu_problem("script", str(python)) == ""


def test_one_cuda_set_is_no_mix(tmp_path: Path) -> None:
    assert mix_check(Installed([tmp_path])).level == "ok"


def test_two_cuda_sets_over_each_other_are_named(tmp_path: Path) -> None:
    for cuda in ("cu12", "cu13"):
        info = tmp_path / f"nvidia_nccl_{cuda}-2.29.dist-info"
        info.mkdir()
        (info / "RECORD").write_text("nvidia/nccl/lib/libnccl.so.2,sha256=x,1\n")
    check = mix_check(Installed([tmp_path]))
    assert check.level == "error"
    assert "nvidia-nccl-cu12" in check.text
    assert "uninstall nvidia-nccl-cu12" in check.advice


AMD = GpuFacts(index=1, uuid="GPU-8d2c0a4b5c6d7e8f", name="AMD Card")
INTEL = GpuFacts(index=2, uuid="GPU-intel0", name="Intel Card")


@pytest.mark.parametrize(
    ("build", "others", "levels"),
    [
        ({"cuda": "13.0"}, (AMD,), {"PyTorch on AMD": "error"}),
        ({}, (AMD,), {"PyTorch on AMD": "error"}),
        ({"hip": "6.4"}, (AMD,), {"PyTorch on AMD": "ok"}),
        ({"xpu": "20250300"}, (INTEL,), {"PyTorch on Intel": "ok"}),
        ({"hip": "6.4"}, (INTEL, AMD), {"PyTorch on Intel": "unknown", "PyTorch on AMD": "ok"}),
    ],
)
def test_a_build_of_torch_is_for_one_maker(
    build: dict[str, str], others: tuple[GpuFacts, ...], levels: dict[str, str], tmp_path: Path
) -> None:
    installed = torch_of(tmp_path, "2.13.0", **build)
    found = torch_checks(installed, DriverFacts(other_gpus=others), "")
    assert {check.name: check.level for check in found} == levels
    kinds = {"PyTorch on AMD": "ROCm", "PyTorch on Intel": "XPU"}
    bad = [check for check in found if check.level != "ok"]
    assert all(f"PyTorch for {kinds[check.name]} " in check.advice for check in bad)


def test_beside_a_card_of_nvidia_another_makers_is_no_fault(tmp_path: Path) -> None:
    both = DriverFacts(driver="580.95.05", gpus=machine((9, 0)).gpus, other_gpus=(AMD,))
    found = torch_checks(torch_of(tmp_path, "2.13.0", "13.0"), both, "")
    assert [check.level for check in found] == ["ok", "unknown"]


@pytest.mark.parametrize("other", [AMD, INTEL], ids=["AMD", "Intel"])
def test_the_ordinary_tensorflow_uses_no_card_of_amd_or_intel(
    other: GpuFacts, tmp_path: Path
) -> None:
    only_other = DriverFacts(other_gpus=(other,))
    installed = tensorflow_of(tmp_path)
    check = only(tensorflow_checks(installed, only_other, "", has_system_cuda=True))
    assert (check.name, check.level) == (f"TensorFlow on {other.maker}", "unknown")
    assert f"GPU of {other.maker}" in check.text
    (tmp_path / "tensorflow-2.21.0.dist-info").rename(tmp_path / "tensorflow_rocm-2.21.0.dist-info")
    (check,) = tensorflow_checks(Installed([tmp_path]), only_other, "")
    assert check.level == ("ok" if other is AMD else "unknown")
