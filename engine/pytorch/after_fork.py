"""What a forked PyTorch worker sets that PyTorch and Keras have read when they were imported."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import torch


def set_up(environment: Mapping[str, str]) -> None:
    """Use the threads and the device that `environment` names, and random numbers of its own."""
    # MKL's own variable counts more: PyTorch takes its number of threads from MKL.
    for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        threads = environment.get(name, "")
        if threads.isdecimal() and int(threads):
            torch.set_num_threads(int(threads))
            break
    torch.default_generator.seed()
    if keras_core := sys.modules.get("keras.src.backend.torch.core"):
        keras_core.DEFAULT_DEVICE = environment["KERAS_TORCH_DEVICE"]  # type: ignore[attr-defined]
