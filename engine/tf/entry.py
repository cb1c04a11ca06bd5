"""Where a worker comes to TensorFlow: the import, without the lines that it always prints."""

from __future__ import annotations

import faulthandler
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.tf.tf_strategy import TfStrategy
from engine.worker.optional_imports import without_scikit_learn

if TYPE_CHECKING:
    from engine.training.protocols import Trainer
    from engine.worker.session import WorkerSession

STDERR = 2

_NOISE = (
    "All log messages before absl::InitializeLog",
    "oneDNN custom operations are on",
    "This TensorFlow binary is optimized",
    "To enable the following instructions",
)
"""What it prints on every machine."""

_WITHOUT_GPU = ("Could not find cuda drivers", "failed call to cuInit", "CUDA_ERROR_NO_DEVICE")
"""What it prints where it finds no GPU, also to those who want none."""


def build(session: WorkerSession, strategy: TfStrategy) -> Trainer:
    """The trainer of this process."""
    with _without_noise(), without_scikit_learn(Path(session.recipe.path)):
        import tensorflow

        tensorflow.config.list_physical_devices()
    return strategy.trainer(session)


def without_noise(text: str, wants_gpu: bool) -> str:
    """The lines of `text` that say something about this run."""
    noise = _NOISE if wants_gpu else _NOISE + _WITHOUT_GPU
    is_noise = re.compile("|".join(map(re.escape, noise))).search
    return "".join(line for line in text.splitlines(keepends=True) if not is_noise(line))


@contextmanager
def _without_noise() -> Iterator[None]:
    """Hold back what is printed in this context, also by C++, and print the rest of it later."""
    own = os.dup(STDERR)
    faulthandler.enable(own)  # a crash is told at once
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), STDERR)
        try:
            yield
        finally:
            os.dup2(own, STDERR)
            faulthandler.enable(STDERR)
            os.close(own)
            held.seek(0)
            wants_gpu = os.environ.get("CUDA_VISIBLE_DEVICES") != ""
            text = without_noise(held.read().decode(errors="replace"), wants_gpu)
            os.write(STDERR, text.encode())
