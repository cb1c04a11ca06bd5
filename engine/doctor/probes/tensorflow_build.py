"""Imports TensorFlow, and asks how it was built; uses no GPU."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def facts(arguments: list[str]) -> dict[str, Any]:
    """Return the build."""
    build = tf.sysconfig.get_build_info()
    return {
        "version": str(tf.__version__),
        "cuda": str(build.get("cuda_version", "")) if build.get("is_cuda_build") else "",
        "kernels": list(build.get("cuda_compute_capabilities", [])),
        "cudnn": str(build.get("cudnn_version", "")),
    }
