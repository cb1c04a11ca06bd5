"""A compiled Keras model under torch/keras_ddp: used as such, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.runs.run_state import RunState
from tests.support.contract import validation
from tests.support.runs import RECIPES, curve, logs, spec, train
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

COMPILED = """

_made = model


def model():
    made = _made()
    made.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return made
"""


def recipe(folder: Path, more: str = "") -> str:
    """The path of the probe recipe with a compiled model, without its loss and optimizer."""
    source = (RECIPES / "probe_keras.py").read_text()
    for name in ("loss", "metrics", "optimizer"):
        source = source.replace(f"def {name}(", f"def _{name}(")
    path = folder / "compiled.py"
    path.write_text(source + COMPILED + more)
    return str(path)


def test_two_ranks_train_and_validate_like_one(tmp_path: Path) -> None:
    """Also where one rank has no sample of a batch: what stands in for it is not counted."""
    path = recipe(tmp_path)
    options = {"batch_size": 33, "epochs": 2, "learning_rate": 1e-3}  # that of a recipe's default
    one, two = (train(spec(path, "torch/keras_ddp", n, **options)) for n in (1, 2))
    assert [one.state, two.state] == [RunState.FINISHED] * 2, logs(one)
    assert curve(two, "train/loss")[1] == pytest.approx(curve(one, "train/loss")[1], abs=1e-5)
    assert curve(one, "train/learning_rate")[1][0] == pytest.approx(0.05)
    assert validation(two).keys() == {"loss", "accuracy"} or "validation/accuracy" in validation(
        two
    )
    assert validation(two) == pytest.approx(validation(one), abs=1e-5)


def test_what_is_said_twice_is_refused(tmp_path: Path) -> None:
    info = train(spec(recipe(tmp_path, "\n\nloss = _loss\n"), "torch/keras_ddp"))
    assert info.state is RunState.FAILED
    assert sentence("own-loss-and-compiled-loss") in info.reason
