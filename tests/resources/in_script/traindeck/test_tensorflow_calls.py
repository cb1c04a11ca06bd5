"""Scripts of TensorFlow and Keras with calls: resumed bit for bit."""

from __future__ import annotations

import pytest

from tests.resources.in_script.traindeck.conftest import Start

pytestmark = pytest.mark.nightly


def _figures(lines: list[str]) -> list[str]:
    """Leave out what TensorFlow prints when it starts."""
    return [line for line in lines if line.startswith(("loss ", "end ", "acc", "val"))]


def test_a_fit_resumes_in_the_middle_of_an_epoch_and_at_its_end(start: Start) -> None:
    run = start("keras_fit.py", "unbuilt", every={"steps": 5, "epochs": 2})
    assert run.wait() == [0], run.output()
    assert [(f["epoch"], f["step"]) for f in run.frames("epoch")] == [(1, 4), (2, 8), (3, 12)]
    assert [step for step, _ in run.points("train/loss")] == list(range(1, 13))
    assert len(run.points("validation/loss")) == 3
    for step, shape in ((10, "unbuilt"), (8, "built")):  # by an Input layer, or by the first batch
        again = start("keras_fit.py", shape, folder=f"from-{step}", checkpoint=run.saved(step))
        assert again.wait() == [0], again.output()
        assert _figures(again.lines()) == _figures(run.lines())
        assert [s for s, _ in again.points("train/loss")] == list(range(step + 1, 13))


def test_a_loop_over_a_dataset_resumes(start: Start) -> None:
    run = start("tensorflow_loop.py", every={"steps": 7, "epochs": 1})
    assert run.wait() == [0], run.output()
    assert not run.frames("notice")
    for step in (7, 10):
        again = start("tensorflow_loop.py", folder=f"from-{step}", checkpoint=run.saved(step))
        assert again.wait() == [0], again.output()
        assert _figures(again.lines()) == _figures(run.lines())[step:]


def test_a_fit_of_several_ranks_is_refused(start: Start) -> None:
    run = start("keras_fit.py", ranks=2)
    assert run.wait() == [1, 1]
    assert run.failure.startswith("traindeck._errors.TraindeckError: traindeck.KerasCallback is")
