"""Stages on several devices: where variables are and operations run, and what cannot be cut.

What the process does that these tests look at stands in `staged_model`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.spec import catalog
from engine.spec.recipe_file import read_recipe
from tests.support.programs import found_by
from tests.support.runs import RECIPES
from tests.support.sentences import sentence


@pytest.fixture(scope="module")
def found(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the process."""
    file = tmp_path_factory.mktemp("staged") / "found.json"
    result: dict[str, Any] = found_by(
        "tensorflow", "tests.engine.tf.parallelism.staged_model", file
    )
    return result


def test_stages_train_exactly_like_the_whole_model(found: dict[str, Any]) -> None:
    """With dropout, BatchNorm, masks, regularisation and weight decay, over two devices."""
    assert found["staged"]["difference"] == 0.0


def test_variables_and_their_slots_are_on_the_device_of_their_stage(found: dict[str, Any]) -> None:
    staged = found["staged"]
    assert set(staged["variables"]) == {"CPU:0", "CPU:1"}
    assert staged["trainable"] == sorted(staged["trainable"])
    assert sorted(staged["slots"]) == sorted(2 * staged["trainable"])


def test_backward_pass_and_update_run_on_the_device_of_the_weights(
    found: dict[str, Any],
) -> None:
    """One gradient tape over all stages would compute all of it on the first device."""
    operations = found["staged"]["operations"]
    backward = {where for name, where in operations if name.startswith("gradient_tape")}
    update = {where for name, where in operations if name.startswith("adam")}
    assert backward == update == {"CPU:0", "CPU:1"}
    last_layer = {where for name, where in operations if "/last" in name}
    assert last_layer == {"CPU:1"}


def test_the_largest_stage_is_as_small_as_possible(found: dict[str, Any]) -> None:
    """Layers of 64, 64, 128, 64 and 16 parameters."""
    assert found["sizes"] == [[336], [128, 208], [128, 128, 80]]


def test_a_recipe_cuts_a_model_that_is_not_a_chain(found: dict[str, Any]) -> None:
    assert [where for _, where in found["own"]] == ["CPU:0", "CPU:0", "CPU:1", "CPU:1"]


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("functional", "not a Sequential"),
        ("few layers", sentence("only-of-layers-have-trainable-parameters")),
        ("not a list", sentence("must-return-list-of-layers")),
        ("shared", sentence("stages-of-model-share")),
        ("foreign", "which is not in the model"),
        ("nothing to train", sentence("stage-of-model-has-no-trainable-parameter")),
        ("not all", sentence("no-stage-of-model-holds")),
    ],
)
def test_a_model_that_cannot_be_cut_is_refused_with_the_reason(
    found: dict[str, Any], mistake: str, said: str
) -> None:
    assert said in found["refusals"][mistake]


def test_recipes_that_cannot_be_cut_are_refused_beforehand(tmp_path: Path) -> None:
    strategy = catalog.strategy("tf/model_parallel")
    assert strategy.recipe_problem(read_recipe(RECIPES / "probe_keras.py")) == ""
    recipe = tmp_path / "one_piece.py"
    recipe.write_text("import keras\ndef model(): ...\ndef datasets(): ...\n")
    assert "stages(model, count)" in strategy.recipe_problem(read_recipe(recipe))


def test_the_model_is_one_replica() -> None:
    strategy = catalog.strategy("tf/model_parallel")
    assert strategy.replicas(("cpu:0", "cpu:1")) == 1
    assert len(strategy.pool(("cpu:0", "cpu:1"))) == 1
