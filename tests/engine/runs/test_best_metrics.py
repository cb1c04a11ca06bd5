"""The star, the best column and the checkpoint that is kept agree about what is best."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from engine.runs.best_metrics import best_figures
from engine.runs.checkpoints import checkpoint_files
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from tests.support.loop_doubles import STEPS, Training


@pytest.mark.parametrize(
    ("wanted", "recipe"),
    [
        ("mae", {}),
        ("rmse", {}),
        ("word_errors", {}),
        ("accuracy", {}),
        ("mae:max", {}),
        ("score:min", {}),
        ("score", {"score": "min"}),
        ("score:max", {"score": "min"}),
        ("loss", {"loss": "max"}),
    ],
)
def test_the_best_checkpoint_is_the_one_with_the_best_figure(
    wanted: str, recipe: dict[str, str], tmp_path: Path
) -> None:
    values = [0.5, 0.3, 0.6, 0.4]
    name = wanted.partition(":")[0]
    training = Training(tmp_path)
    training.change_spec(checkpoint_best=wanted, epochs=len(values))
    training.session.recipe_directions = recipe
    training.trainer.validation = lambda epoch: {name: values[epoch]}
    events = training.run()
    with closing(RunStore(tmp_path)) as store:
        for event in events:
            store.append(event, 1.0)
    with RunReader(tmp_path) as reader:
        best = best_figures(reader)[f"validation/{name}"]
    kept = [
        info.manifest
        for info in checkpoint_files.checkpoints(tmp_path)
        if "best" in info.manifest.kinds
    ]
    assert [manifest.position.step for manifest in kept] == [best.step]
    assert kept[0].metrics[f"validation/{name}"] == best.value
    assert best.step in (2 * STEPS, 3 * STEPS)
