"""What a forked PyTorch worker sets that PyTorch and Keras have read when they were imported."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import psutil
import torch

from engine.processes.process import usable_processors


def set_up(environment: Mapping[str, str]) -> None:
    """Use the threads and the device that `environment` names, and random numbers of its own."""
    if threads := _threads(environment):
        torch.set_num_threads(threads)
    torch.default_generator.seed()
    if keras_core := sys.modules.get("keras.src.backend.torch.core"):
        keras_core.DEFAULT_DEVICE = environment["KERAS_TORCH_DEVICE"]  # type: ignore[attr-defined]


def _threads(environment: Mapping[str, str]) -> int:
    """Return the number of threads that PyTorch takes when it is loaded; 0 if none is named."""
    # MKL's own variable counts more: PyTorch takes its number of threads from MKL.
    texts = (environment.get(name, "") for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"))
    threads = next((int(text) for text in texts if text.isdecimal() and int(text)), 0)
    is_fixed = environment.get("MKL_DYNAMIC", "").upper() in ("FALSE", "0")
    if torch.backends.mkl.is_available() and not is_fixed:  # type: ignore[no-untyped-call]
        cores = min(psutil.cpu_count(logical=False) or threads, usable_processors())
        threads = min(threads, cores)
    return threads
