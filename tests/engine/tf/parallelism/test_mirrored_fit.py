"""Keras' `fit` under MirroredStrategy: equal to one device, or refused where it trains wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.messages.events import WorkerFailed
from engine.runs.run_state import RunState
from tests.support.runs import RECIPES, curve, events, logs, spec, train, wait_until_gone

pytestmark = pytest.mark.usefixtures("processes")

SGD = "keras.optimizers.SGD(learning_rate, momentum=0.9)"


def recipe(folder: Path, *changes: tuple[str, str]) -> str:
    """The path of a copy of the probe recipe with some replacements."""
    source = (RECIPES / "probe_keras.py").read_text()
    for old, new in changes:
        assert source.count(old) == 1
        source = source.replace(old, new)
    path = folder / "changed.py"
    path.write_text(source)
    return str(path)


def test_uneven_shares_and_weight_decay_train_like_one_device(tmp_path: Path) -> None:
    """Batches of 33 over 2 replicas. Where data ends, `fit` would do one weight decay too many.

    With a large epsilon, so that rounding of tiny gradients does not show.
    """
    adamw = "keras.optimizers.AdamW(learning_rate, weight_decay=0.5, epsilon=1e-3)"
    path = recipe(tmp_path, (SGD, adamw))
    runs = [
        train(spec(path, strategy, devices, batch_size=33, epochs=3, learning_rate=0.01))
        for strategy, devices in (("tf/mirrored_fit", 2), ("tf/single", 1))
    ]
    assert [info.state for info in runs] == [RunState.FINISHED] * 2, logs(runs[0])
    ours, theirs = (curve(info, "train/loss") for info in runs)
    assert ours[0] == theirs[0] == list(range(1, 10))
    assert ours[1] == pytest.approx(theirs[1], abs=1e-5)
    assert "ran out of data" not in logs(runs[0])


@pytest.mark.nightly
def test_an_optimizer_that_clips_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = recipe(tmp_path, (SGD, "keras.optimizers.SGD(learning_rate, clipnorm=1.0)"))
    info = train(spec(path, "tf/mirrored_fit", 2))
    assert info.state is RunState.FAILED
    assert "clipnorm" in info.reason
    assert "choose tf/mirrored" in info.reason


def test_a_mistake_in_the_recipe_comes_out_of_fit_and_ends_the_run(tmp_path: Path) -> None:
    mistake = ("    if hold:\n        hold_here(saved)\n", "    outputs = outputs[:, :oops]\n")
    info = train(spec(recipe(tmp_path, mistake), "tf/mirrored_fit", 2))
    assert info.state is RunState.FAILED
    (failure,) = (event for event in events(info) if isinstance(event, WorkerFailed))
    assert "oops" in info.reason
    assert "outputs[:, :oops]" in failure.traceback
    wait_until_gone(info)
