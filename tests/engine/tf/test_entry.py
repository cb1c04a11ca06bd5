"""Which of TensorFlow's lines reach the log."""

from __future__ import annotations

import pytest

from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.tf.entry import without_noise
from tests.support.contract import plain
from tests.support.runs import spec, train

STAMP = "0000 00:00:1795259268.010156   32562"
ALWAYS = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
NO_DRIVER = f"I{STAMP} cudart_stub.cc:31] Could not find cuda drivers on your machine\n"
NO_GPU = f"E{STAMP} cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)\n"
REAL = f"W{STAMP} allocator.cc:83] Allocation exceeds 10% of free system memory.\n"


def test_real_warnings_stay() -> None:
    assert without_noise(ALWAYS + NO_DRIVER + REAL + NO_GPU, wants_gpu=False) == REAL


def test_a_missing_driver_is_reported_only_if_the_run_uses_gpus() -> None:
    text = ALWAYS + NO_DRIVER + NO_GPU
    assert without_noise(text, wants_gpu=True) == NO_DRIVER + NO_GPU


@pytest.mark.usefixtures("processes")
def test_the_log_of_a_run_is_empty() -> None:
    info = plain(catalog.strategy("tf/mirrored"))
    assert (info.folder / "logs" / "rank0.log").read_text() == ""


@pytest.mark.nightly
@pytest.mark.usefixtures("processes")
def test_the_log_of_a_run_with_xla_is_empty() -> None:
    """It prints much."""
    info = train(spec("probe_keras", "tf/mirrored", 2, compile=True, deterministic=True))
    assert info.state is RunState.FINISHED, info.reason
    assert (info.folder / "logs" / "rank0.log").read_text() == ""
