"""Models that compute their loss from a batch, as those of Hugging Face do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from engine.pytorch.recipe import libraries
from engine.pytorch.recipe.hugging_face import counted_labels, is_pretrained_model
from engine.pytorch.recipe.torch_recipe import Turn
from engine.training.errors import TrainingFailed
from tests.engine.pytorch.recipe.empty_recipe import empty_recipe
from tests.engine.pytorch.recipe.library_doubles import PreTrainedModel
from tests.support.sentences import sentence


class TinyForCausalLM(PreTrainedModel):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)

    def forward(self, input_ids: Any = None, labels: Any = None) -> dict[str, Any]:
        logits = self.embedding(input_ids) @ self.embedding.weight.T
        if labels is None:
            return {"logits": logits}
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


def batch() -> dict[str, torch.Tensor]:
    tokens = torch.tensor([[1, 2, 3, 4], [4, 5, 6, 0]])
    return {"input_ids": tokens, "labels": tokens.where(tokens > 0, -100)}


def test_the_model_computes_the_loss() -> None:
    model = TinyForCausalLM()
    recipe = libraries.adapted(empty_recipe(), model)
    assert recipe.step is not None
    assert recipe.validate is not None
    assert not recipe.takes_pairs
    values = recipe.step(model, batch(), Turn())
    assert values["loss"] == model(**batch())["loss"]
    assert recipe.validate(model, batch()) == values


def test_columns_that_the_model_does_not_take_are_left_out() -> None:
    model = TinyForCausalLM()
    recipe = libraries.adapted(empty_recipe(), model)
    assert recipe.step is not None
    values = recipe.step(model, batch() | {"text": ["a", "b"]}, Turn())
    assert values["loss"] == model(**batch())["loss"]


def test_the_weight_is_what_the_loss_is_a_mean_of() -> None:
    recipe = libraries.adapted(empty_recipe(), TinyForCausalLM())
    assert recipe.weight is not None
    assert recipe.weight(batch()) == 5  # of 2 x 3 next tokens, one is ignored


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (torch.tensor([0, 1, 1]), 3.0),
        (torch.tensor([0, -100, 1]), 2.0),
        (torch.tensor([[0, -100], [1, 1]]), 3.0),
        (torch.tensor([0.5, 1.5]), 2.0),
    ],
)
def test_labels_without_a_next_one(labels: torch.Tensor, expected: float) -> None:
    assert counted_labels({"labels": labels}, counts_next=False) == expected


def test_a_batch_without_labels_is_told() -> None:
    model = TinyForCausalLM()
    recipe = libraries.adapted(empty_recipe(), model)
    assert recipe.step is not None
    with pytest.raises(TrainingFailed, match=sentence("gave-no-loss-for-batch").pattern):
        recipe.step(model, {"input_ids": batch()["input_ids"]}, Turn())
    with pytest.raises(TrainingFailed, match="a batch is a tuple"):
        recipe.step(model, (1, 2), Turn())


def test_a_step_of_the_recipe_comes_first() -> None:
    def step(model: Any, batch: Any, turn: Turn) -> Any:
        return {"loss": torch.zeros(())}

    recipe = empty_recipe(step=step)
    assert libraries.adapted(recipe, TinyForCausalLM()) is recipe


def test_other_models_are_left_alone() -> None:
    recipe = empty_recipe()
    assert libraries.adapted(recipe, nn.Linear(2, 2)) is recipe
    assert not is_pretrained_model(nn.Linear(2, 2))
