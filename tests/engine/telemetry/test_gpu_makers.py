"""Whose card a GPU is, and how a process sees it."""

from __future__ import annotations

import pytest

from engine.telemetry.gpu_makers import gpu_maker, gpu_variables


@pytest.mark.parametrize(
    ("gpus", "maker", "variables"),
    [
        (["GPU-1b2c3d4e-1111-2222-3333-444455556666"], "NVIDIA", {"CUDA_VISIBLE_DEVICES": ...}),
        (["MIG-1b2c"], "NVIDIA", {"CUDA_VISIBLE_DEVICES": "MIG-1b2c"}),
        (
            ["GPU-8d2c0a4b5c6d7e8f", "GPU-amd0"],
            "AMD",
            {
                "ROCR_VISIBLE_DEVICES": "GPU-8d2c0a4b5c6d7e8f,0",
                "HIP_VISIBLE_DEVICES": "0,1",
                "CUDA_VISIBLE_DEVICES": "0,1",
            },
        ),
        (
            ["GPU-intel1", "GPU-intel0"],
            "Intel",
            {
                "ZE_AFFINITY_MASK": "1,0",
                "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
                "CUDA_VISIBLE_DEVICES": "",
            },
        ),
    ],
)
def test_a_process_sees_its_gpus_alone_by_the_variables_of_their_maker(
    gpus: list[str], maker: str, variables: dict[str, object]
) -> None:
    assert {gpu_maker(gpu) for gpu in gpus} == {maker}
    wanted = {name: gpus[0] if text is ... else text for name, text in variables.items()}
    assert gpu_variables(gpus) == wanted


def test_a_process_without_a_gpu_sees_none() -> None:
    assert gpu_variables([]) == {"CUDA_VISIBLE_DEVICES": ""}
