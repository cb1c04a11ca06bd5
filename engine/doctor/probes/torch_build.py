"""Imports PyTorch, and asks how it was built; uses no GPU."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch


def facts(arguments: list[str]) -> dict[str, Any]:
    """Return the build."""
    cuda = torch.version.cuda or ""
    flags = torch._C._cuda_getArchFlags() if cuda else ""  # get_arch_list asks for a GPU first
    backends: Any = torch.backends  # functions without types
    cudnn = backends.cudnn.version() if cuda else ""
    of_nccl: Any = torch.cuda.nccl if cuda else None
    nccl = of_nccl.version() if cuda else ()
    return {
        "version": str(torch.__version__),
        "cuda": cuda,
        "kernels": (flags or "").split(),
        "cudnn": str(cudnn or ""),
        "nccl": ".".join(map(str, nccl)),
        "has_triton": importlib.util.find_spec("triton") is not None,
    }
