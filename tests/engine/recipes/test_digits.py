"""The built-in recipes learn what they promise, with their own defaults."""

from __future__ import annotations

import pytest

from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from tests.support.runs import curve, logs, spec, train

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.nightly]


@pytest.mark.parametrize("recipe", catalog.builtin_recipes(), ids=lambda recipe: recipe.name)
def test_a_built_in_recipe_learns_within_its_default_epochs(recipe: RecipeInfo) -> None:
    info = train(
        spec(
            recipe.name,
            catalog.strategy("single", recipe).name,
            epochs=recipe.epochs,
            batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate,
        )
    )
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    _, accuracy = curve(info, "validation/accuracy")
    assert len(accuracy) == recipe.epochs
    assert accuracy[2] >= 0.85
    assert accuracy[-1] >= 0.97
