"""The worked examples of docs/own-code.md: each recipe trains."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from engine.messages.events import Notice
from engine.runs.run_state import RunState
from engine.spec.recipe_file import read_recipe
from tests.support.runs import curve, events, logs, spec, train

DOCUMENT = Path(__file__).parents[1] / "docs/own-code.md"


def recipes() -> dict[str, str]:
    """Return the recipes of level 2 by their headings: what defines model() and datasets()."""
    section = re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)
    [level_2] = [part for part in section if part.startswith("Level 2")]
    blocks = re.findall(r"^### ([^\n]*)\n.*?```python\n(.*?)```", level_2, re.MULTILINE | re.DOTALL)
    return {
        heading: source
        for heading, source in blocks
        if "def model" in source and "def datasets" in source
    }


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("heading", recipes())
def test_a_worked_example_trains(heading: str, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(recipes()[heading])
    recipe = read_recipe(file)
    assert recipe.problem == ""
    strategy = "tf/single" if recipe.framework == "keras" else "torch/ddp"
    info = train(
        spec(
            str(file),
            strategy,
            1 if recipe.framework == "keras" else 2,
            batch_size=recipe.batch_size,
            epochs=recipe.epochs,
            steps=recipe.steps,
            learning_rate=recipe.learning_rate,
        )
    )
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    _, losses = curve(info, "train/loss")
    assert all(map(math.isfinite, losses))
    if "GAN" not in heading:  # its losses are each other's opposites
        assert losses[-1] < losses[0]
    said = [event.text for event in events(info) if isinstance(event, Notice)]
    assert not [text for text in said if "not the mean" in text], said


def test_there_are_worked_examples() -> None:
    assert len(recipes()) >= 3
