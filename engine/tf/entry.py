"""Imports TensorFlow without the lines that it always prints, and makes the trainer."""

from __future__ import annotations

import faulthandler
import os
import pkgutil
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from engine.tf.tf_strategy import TfStrategy
from engine.training.early_end import SCRATCH
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
"""Lines that TensorFlow prints on every machine."""

_WITHOUT_GPU = ("Could not find cuda drivers", "failed call to cuInit", "CUDA_ERROR_NO_DEVICE")
"""Lines that TensorFlow prints if it finds no GPU, even in a run on CPUs."""


def build(session: WorkerSession, strategy: TfStrategy) -> Trainer:
    """Return the trainer of this process."""
    with _without_noise(), without_scikit_learn(session.recipe.file):
        import tensorflow

        tensorflow.config.list_physical_devices()
    if scratch := os.environ.get(SCRATCH):
        _leave_generated_files_in(scratch)
    trainer: Trainer = pkgutil.resolve_name(strategy.trainer(session.rank))(session, strategy)
    return trainer


def _leave_generated_files_in(folder: str) -> None:
    """Let AutoGraph write the code that it generates to `folder`; it deletes it only at an exit."""
    from tensorflow.python.autograph.pyct import loader

    make = partial(tempfile.NamedTemporaryFile, dir=folder)
    loader.tempfile = SimpleNamespace(NamedTemporaryFile=make)


def without_noise(text: str, wants_gpu: bool) -> str:
    """Return `text` without the lines that are the same in every run."""
    noise = _NOISE if wants_gpu else _NOISE + _WITHOUT_GPU
    is_noise = re.compile("|".join(map(re.escape, noise))).search
    return "".join(line for line in text.splitlines(keepends=True) if not is_noise(line))


def shown_of_imports(printed: str, environment: Mapping[str, str]) -> str:
    """Return what a worker with `environment` shows of what the imports have printed."""
    return without_noise(printed, wants_gpu=environment.get("CUDA_VISIBLE_DEVICES") != "")


@contextmanager
def _without_noise() -> Iterator[None]:
    """Hold the text that Python or C++ writes to stderr here; write it, filtered, at the end."""
    stderr = os.dup(STDERR)
    faulthandler.enable(stderr)  # the traceback of a crash must not be held
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), STDERR)
        try:
            yield
        finally:
            os.dup2(stderr, STDERR)
            faulthandler.enable(STDERR)
            os.close(stderr)
            captured.seek(0)
            text = shown_of_imports(captured.read().decode(errors="replace"), os.environ)
            os.write(STDERR, text.encode())
