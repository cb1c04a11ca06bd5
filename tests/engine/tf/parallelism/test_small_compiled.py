"""A compiled Keras model trains as Keras' own `fit` trains it, under every strategy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sentences import sentence

pytestmark = pytest.mark.nightly

REFUSED = {
    "weighted samples, tf/mirrored_fit": "clipnorm",
    "masks, tf/mirrored_fit": "masks",
    "own loss, tf/model_parallel": "define stages(model, count)",
}
"""What is refused, and what the reason names."""


def test_curves_and_weights_are_those_of_fit(compiled: dict[str, Any]) -> None:
    """Losses, their weights, metrics with and without sample weights, masks, sums, own losses."""
    found = compiled["like_fit"]
    assert len(found) == 13
    assert {name for name, apart in found.items() if isinstance(apart, str)} == REFUSED.keys()
    for name, said in REFUSED.items():
        assert said in found[name]
    for name in found.keys() - REFUSED.keys():
        series, of_curves, of_weights = found[name]
        assert of_curves < 1e-5, (name, series)
        assert of_weights < (1e-6 if not name.endswith("tf/single") else 1e-7), name


def test_a_resumed_epoch_counts_its_metrics_from_its_begin(compiled: dict[str, Any]) -> None:
    for names, of_curves, of_weights in compiled["resumed_metrics"].values():
        assert {"kind_accuracy", "size_mae", "kind_loss", "size_loss", "loss"} <= set(names)
        # A checkpoint holds the sums of all replicas, so that they are added in another order.
        assert of_curves <= 1e-6
        assert of_weights == 0


def test_streams_train_alike_under_every_strategy_and_go_on_where_they_stood(
    loops: dict[str, Any],
) -> None:
    """tf.data of a known and of no known length, shuffled anew in each epoch, and `PyDataset`."""
    found = loops["streams_of_data"]
    assert found.keys() == {"unknown length", "batches", "shuffled samples", "by number"}
    for name, (steps, by_strategy, resumed, from_fit) in found.items():
        assert steps == (0 if name == "unknown length" else 4)
        for of_weights, losses, of_losses in by_strategy.values():
            assert of_weights < 1e-6, name
            assert losses == 8
            assert of_losses < 1e-5, name
        assert resumed == 0, name
        assert from_fit == 0, name


def test_streams_that_cannot_be_read_are_named(loops: dict[str, Any]) -> None:
    said = loops["refused_streams"]
    wanted = ["choose 16 for the run", "call batch() of it", "empty", "ragged", "PyDataset"]
    assert len(said) == len(wanted)
    for phrase, part in zip(said, wanted, strict=True):
        assert part in phrase


def test_callbacks_act_at_the_ends_of_epochs_as_in_fit_also_after_a_resume(
    loops: dict[str, Any],
) -> None:
    """One lowers the learning rate, one stops early and takes the best weights back."""
    found = loops["callbacks_at_epochs"]
    *before, last = found["reasons"]
    assert before == ["", ""]
    assert last == sentence("callback-earlystopping-ended-training")
    assert found["rates"] == pytest.approx([0.0005, 0.001])
    assert found["names"] == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert found["logs"] < 1e-6
    assert found["weights"] == 0


def test_a_callback_that_counts_batches_is_refused_by_name(loops: dict[str, Any]) -> None:
    nan, checkpoint = loops["callbacks_at_epochs"]["said"]
    assert "TerminateOnNaN" in nan
    assert "save_freq='epoch'" in checkpoint


def test_what_is_said_twice_or_cannot_be_honoured_is_refused_by_name(
    loops: dict[str, Any],
) -> None:
    wanted = [
        "loss(outputs, targets) and a model that is compiled with a loss",
        "optimizer() and a model that is compiled with an optimizer",
        "step(model, batch) and a model that is compiled with a loss",
        "optimizers()",
        "run_eagerly",
        "use_ema",
        "the learning rate 0.3, but the optimizer of compile() has a schedule",
        "compiled without a loss",
        "stateful=True",
    ]
    assert len(loops["refused_models"]) == len(wanted)
    for said, part in zip(loops["refused_models"], wanted, strict=True):
        assert part in said


def test_a_step_of_the_recipes_own_trains_alike_in_parts(own_loops: dict[str, Any]) -> None:
    """With dictionaries as batches, and a loss that is a mean over weights."""
    found = own_loops["own_steps"]
    (loss, other, (name, value)), mirrored = found["figures"]
    assert len(loss) == 4
    assert other != loss
    assert name == "mean"
    assert mirrored[0] == pytest.approx(loss, abs=1e-5)
    assert mirrored[2] == ["mean", pytest.approx(value, abs=1e-5)]
    assert found["apart"] < 1e-6


def test_autograph_leaves_no_file(own_loops: dict[str, Any]) -> None:
    assert own_loops["own_steps"]["files"] == 0


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("one_optimizer", ["accuracy", "learning_rate", "loss", "of_batch"]),
        ("two_optimizers", ["loss", "steps"]),
    ],
)
def test_a_train_step_of_the_models_own_trains_as_in_fit(
    own_loops: dict[str, Any], model: str, names: list[str]
) -> None:
    """With its logs as curves, also after a resume; with a test_step, and several optimizers."""
    found = own_loops["own_train_steps"][model]
    assert set(names) <= set(found["names"])
    assert {name for name in found["names"] if not name.startswith("val_")} == set(names)
    assert "val_loss" in found["names"]
    assert found["missing"] == []
    assert found["curves"] < 1e-6
    assert found["weights"] == 0
    assert found["resumed curves"] == 0
    assert found["resumed weights"] == 0


def test_what_contradicts_a_train_step_of_the_models_own_is_refused_by_name(
    own_loops: dict[str, Any],
) -> None:
    wanted = [
        "choose tf/single",
        "choose tf/single",
        "accumulation",
        "clip_norm",
        "gradient_norm",
        "on_nan",
        "optimizer",
        "precision",
        "several optimizers",
        "weight(batch)",
    ]
    said = own_loops["own_train_steps"]["said"]
    assert len(said) == len(wanted)
    for phrase, part in zip(said, wanted, strict=True):
        assert part in phrase
        assert "its own train_step()" in phrase
