"""Scripts of TensorFlow and Keras with calls: resumed bit for bit, and mirrored on two devices."""

from __future__ import annotations

import pytest

from tests.resources.in_script.traindeck.conftest import Start

pytestmark = pytest.mark.nightly

TWO_DEVICES = {"TRAINDECK_DEVICES": "2"}


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


def test_a_loop_is_mirrored_and_resumes(start: Start) -> None:
    # 65 samples: the last batch has one, so that the second device has none.
    single = start("tensorflow_loop.py", "65", folder="single")
    run = start(
        "tensorflow_loop.py",
        "65",
        strategy="mirrored",
        every={"steps": 7},
        variables=TWO_DEVICES,
    )
    assert (run.wait(), single.wait()) == ([0], [0]), run.output() + single.output()
    assert run.frames("plan")[-1]["replicas"] == 2
    losses, alone = (
        [float(line.split()[2]) for line in _figures(script.lines())[:-1]]
        for script in (run, single)
    )
    assert losses == pytest.approx(alone, rel=1e-4)
    again = start(
        "tensorflow_loop.py",
        "65",
        strategy="mirrored",
        folder="again",
        checkpoint=run.saved(7),
        variables=TWO_DEVICES,
    )
    assert again.wait() == [0], again.output()
    assert _figures(again.lines()) == _figures(run.lines())[7:]


def test_a_fit_that_would_use_one_of_two_devices_is_refused(start: Start) -> None:
    run = start("keras_fit.py", strategy="mirrored", variables={"TRAINDECK_DEVICES": "2"})
    assert run.wait() == [1]
    assert "traindeck.scope()" in run.failure
