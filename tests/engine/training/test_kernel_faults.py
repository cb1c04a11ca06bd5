"""What is said of a kernel that failed, and in which steps it may be."""

from __future__ import annotations

import pytest

from engine.runs.checkpoints.checkpoint_files import Position
from engine.training.kernel_faults import KernelFault, kernel_fault
from engine.training.protocols import DoneSteps
from tests.support.loop_doubles import Training
from tests.support.sentences import sentence

ERROR = RuntimeError("CUDA error: device-side assert triggered\nFor debugging consider")


@pytest.mark.parametrize(
    ("known", "issued", "said"),
    [(23, 36, "in steps 24 to 36: "), (23, 24, "in step 24: "), (23, 23, "after step 23: ")],
)
def test_the_steps_are_named_in_which_it_may_be(known: int, issued: int, said: str) -> None:
    assert said in str(kernel_fault(ERROR, known, issued))


def test_a_library_that_meets_the_failure_has_what_the_gpu_said_as_a_note() -> None:
    error = RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED_CUDART")
    assert kernel_fault(error, 1, 2) is None
    error.add_note(str(ERROR))
    fault = kernel_fault(error, 23, 24)
    assert sentence("in-step-it-was-given-index", step=24) in str(fault)
    assert fault is not None
    assert fault.__notes__ == [str(ERROR)]


def test_other_errors_are_none() -> None:
    assert kernel_fault(RuntimeError("CUDA error: out of memory"), 1, 2) is None
    assert kernel_fault(ValueError("Rank 1 has no data"), 1, 2) is None


def test_the_loop_knows_the_steps(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    run_steps = training.trainer.run_steps

    def fails(position: Position, count: int) -> DoneSteps:
        if position.step == 3:
            raise ERROR
        return run_steps(position, count)

    monkeypatch.setattr(training.trainer, "run_steps", fails)
    with pytest.raises(KernelFault, match=sentence("in-step-it-was-given-index", step=4).pattern):
        training.run()
