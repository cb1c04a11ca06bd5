"""Computes products and convolutions with PyTorch on one device; compares them with the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

FORMATS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def facts(arguments: list[str]) -> dict[str, Any]:
    """Return relative errors by operation and format; `arguments`: `cuda` or `xpu`, or `cpu` for
    tests."""
    device = torch.device(arguments[0], 0) if arguments[0] != "cpu" else torch.device("cpu")
    found: dict[str, Any] = {}
    if device.type != "cpu":
        module: Any = getattr(torch, device.type)  # torch.cuda or torch.xpu
        properties = module.get_device_properties(device)
        found["free"], found["total"] = module.mem_get_info(device)
        found["name"] = properties.name
        found["uuid"] = str(getattr(properties, "uuid", ""))
        found["count"] = module.device_count()
    found["errors"], found["failures"] = _errors(device)
    found["libraries"] = _libraries()
    return found


def _errors(device: torch.device) -> Any:
    random = torch.Generator().manual_seed(0)

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    operations: dict[str, Any] = {
        "matmul": (torch.matmul, made(256, 384), made(384, 320)),
        "convolution": (torch.nn.functional.conv2d, made(8, 16, 24, 24), made(32, 16, 3, 3)),
    }
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    for operation, (compute, first, second) in operations.items():
        reference = compute(first, second)
        for name, dtype in FORMATS.items():
            try:
                _allow_tf32(name == "tf32")
                result = _run(compute, first.to(device, dtype), second.to(device, dtype))
                errors[f"{operation} {name}"] = float(
                    (result - reference).norm() / reference.norm()
                )
            except Exception as error:  # reported by name: the others are tried all the same
                lines = str(error).strip().splitlines()
                failures[f"{operation} {name}"] = f"{type(error).__name__}: {''.join(lines[:1])}"
    return errors, failures


def _run(
    compute: Callable[..., torch.Tensor], first: torch.Tensor, second: torch.Tensor
) -> torch.Tensor:
    return compute(first, second).to("cpu", torch.float64)


def _allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def _libraries() -> list[str]:
    """Return the lines of the map of memory that are about libraries of which there may be two."""
    try:
        with Path("/proc/self/maps").open(errors="replace") as maps:
            return [line for line in maps if "libcudnn" in line or "libnccl" in line]
    except OSError:
        return []
