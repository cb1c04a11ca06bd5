"""The message when a device is out of memory, and tensors that leave their device and return."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.pytorch import memory
from engine.pytorch.memory import DeviceMemory, HostOffload, out_of_memory_message
from engine.training.errors import OutOfMemory
from tests.support.sentences import sentence

CPU = torch.device("cpu")
CUDA_ERROR = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.64 GiB of "
    "which 1.12 GiB is free."
)
GIB = 2**30


def test_all_the_numbers_are_in_the_message() -> None:
    device = DeviceMemory(total=24 * GIB, free=1 * GIB, reserved=15 * GIB)
    text = out_of_memory_message(CUDA_ERROR, "GPU-1", device, batch=64, accumulation=2)
    for said in (
        "GPU-1 is out of memory",
        "2.50 GiB were asked for",
        "1.00 GiB of 24.00 GiB are free",
        "this training holds 15.00 GiB, everything else 8.00 GiB",
        "computes 64 samples at once",
        "gradient accumulation 4",
    ):
        assert said in text
    assert text.endswith(".")


def test_an_error_without_numbers_is_explained() -> None:
    assert "is out of memory. Each" in out_of_memory_message("no idea", "cpu:0", None, 1, 1)


def test_a_real_allocation_that_fails_is_explained() -> None:
    with (
        pytest.raises(OutOfMemory, match=r"cpu:0 is out of memory: \d+\.\d\d GiB were asked for"),
        memory.explain_out_of_memory([CPU], ["cpu:0"], 8, 1),
    ):
        torch.empty(2**58, dtype=torch.uint8)


def test_other_errors_stay_what_they_are() -> None:
    with (
        pytest.raises(RuntimeError, match="must match"),
        memory.explain_out_of_memory([CPU], ["cpu:0"], 8, 1),
    ):
        torch.zeros(2) + torch.zeros(3)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (CUDA_ERROR, sentence("gpu-a-is-out-of-memory-gib").pattern),
        (
            CUDA_ERROR.replace("GPU 0", "GPU 1"),
            sentence("gpu-b-is-out-of-memory-gib").pattern,
        ),
        ("CUDA error: out of memory", sentence("gpu-c-is-out-of-memory-gib").pattern),
    ],
    ids=["the first", "the second", "the fullest"],
)
def test_of_several_gpus_the_full_one_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str, named: str
) -> None:
    """The numbers in the text are places in CUDA_VISIBLE_DEVICES, which has the spec's order."""
    free = [1 * GIB, 2 * GIB, GIB // 2]
    gpus = [torch.device("cuda", index) for index in range(3)]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free[gpu.index], 8 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu: 0)
    names = ["GPU-a", "GPU-b", "GPU-c"]
    with (
        pytest.raises(OutOfMemory, match=named),
        memory.explain_out_of_memory(gpus, names, 8, 1),
    ):
        raise RuntimeError(text) if text.startswith("CUDA error") else torch.OutOfMemoryError(text)


def test_a_gpu_out_of_memory_is_explained_by_its_type() -> None:
    with (
        pytest.raises(OutOfMemory, match=r"2\.50 GiB"),
        memory.explain_out_of_memory([CPU], ["x"], 8, 1),
    ):
        raise torch.OutOfMemoryError(CUDA_ERROR)


GPU = torch.device("cuda", 0)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'",
        "CUDA driver error: out of memory",
        "Triton Error [CUDA]: out of memory",
        "NCCL error in: NCCLUtils.cpp:77, unhandled cuda error\nCuda failure 2 'out of memory'",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuFFT error: CUFFT_ALLOC_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    ],
)
def test_many_words_mean_that_there_is_no_memory(text: str) -> None:
    assert memory.is_out_of_memory(RuntimeError(text), [CPU])
    assert not memory.is_out_of_memory(ValueError(text), [CPU])


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa)`",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "GET was unable to find an engine to execute this computation",
    ],
)
def test_a_library_that_fails_had_no_memory_only_on_a_full_card(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def says(*, free: int) -> bool:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free, 80 * GIB))
        return memory.is_out_of_memory(RuntimeError(text), [CPU, GPU])

    def fails(gpu: torch.device) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu: 70 * GIB)
    assert says(free=GIB // 8)
    assert not says(free=2 * GIB)
    assert not memory.is_out_of_memory(RuntimeError("CUBLAS_STATUS_INVALID_VALUE"), [GPU])
    monkeypatch.setattr(torch.cuda, "mem_get_info", fails)
    assert not memory.is_out_of_memory(RuntimeError(text), [GPU])


def test_a_library_that_meets_the_failure_of_a_kernel_has_what_the_gpu_says_as_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(gpu: torch.device) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    def notes(text: str) -> list[str]:
        error = RuntimeError(text)
        with (
            pytest.raises(RuntimeError),
            memory.explain_out_of_memory([CPU, GPU], ["0", "1"], 8, 1),
        ):
            raise error
        return getattr(error, "__notes__", [])

    monkeypatch.setattr(torch.cuda, "synchronize", fails)
    monkeypatch.setattr(torch.cuda, "mem_get_info", fails)
    assert notes("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED_CUDART") == [
        "CUDA error: device-side assert triggered"
    ]
    assert notes("mat1 and mat2 shapes cannot be multiplied") == []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda gpu: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (GIB, 80 * GIB))
    assert notes("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED") == []


def test_the_driver_gets_room_and_no_limit_of_the_user_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fractions = {0: 1.0, 1: 0.25}
    gpus = [torch.device("cuda", index) for index in fractions]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (60 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu: 10 * GIB)
    monkeypatch.setattr(
        torch.cuda, "get_per_process_memory_fraction", lambda gpu: fractions[gpu.index]
    )
    monkeypatch.setattr(
        torch.cuda,
        "set_per_process_memory_fraction",
        lambda fraction, gpu: fractions.update({gpu.index: fraction}),
    )
    memory.leave_driver_room([CPU, *gpus])
    assert fractions == {0: (70 * GIB - memory.DRIVER_ROOM) / (80 * GIB), 1: 0.25}


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError(CUDA_ERROR), RuntimeError("CUDA error: out of memory")]
)
def test_all_tensors_are_on_the_host_again_if_one_has_no_room(
    monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    model = nn.Linear(2, 2)
    offload = HostOffload(model, [])
    fits, full = GPU, torch.device("cuda", 1)
    offload._places = [(model.weight, fits), (model.bias, full)]
    places = {"weight": "host", "bias": "host"}

    def move(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        if device == full:
            raise error
        places["weight"] = "GPU"
        return tensor

    def move_back(tensor: torch.Tensor) -> torch.Tensor:
        places["weight"] = "host"
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", move)
    monkeypatch.setattr(torch.Tensor, "cpu", move_back)
    with pytest.raises(RuntimeError, match="out of memory"):
        offload.restore()
    assert places == {"weight": "host", "bias": "host"}


def test_a_freed_pause_frees_the_workspaces_of_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[bool] = []
    memory.free_workspaces()  # a build for CPUs has none
    monkeypatch.setattr(
        torch._C, "_cuda_clearCublasWorkspaces", lambda: freed.append(True), raising=False
    )
    memory.free_workspaces()
    assert freed == [True]


def test_a_training_goes_on_alike_after_its_tensors_were_away() -> None:
    def trained(away: bool) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
        for step in range(4):
            if away and step == 2:
                HostOffload(model, [optimizer]).restore()
            optimizer.zero_grad()
            torch.autograd.backward(model(torch.ones(2, 3)).square().sum())
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(trained(away=False), trained(away=True))


def test_a_cpu_worker_reports_its_own_memory() -> None:
    metrics = memory.metrics([CPU])
    assert list(metrics) == ["memory_resident"]
    assert metrics["memory_resident"] > 1e6
