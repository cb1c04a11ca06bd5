"""A replay says whether its data are those that the run was trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine import client
from engine.facts.run_facts import DataFacts
from engine.planning.replays.data_change import data_change, data_sameness
from engine.planning.replays.replay import CannotReplay, replay
from engine.training.probes.data_fingerprint import chosen
from tests.support.runs import spec, wait_for_end

RECIPE = """
import numpy as np, torch
from pathlib import Path
from torch import nn

class Files(torch.utils.data.Dataset):
    def __init__(self):
        self.images = np.load(Path(__file__).parent / "images.npy")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if np.isnan(self.images[index]).any():
            raise ValueError("no image")
        return torch.from_numpy(self.images[index]), index % 3

def model(): return nn.Linear(4, 3)

def datasets(): return Files(), None
"""
THEN = DataFacts(length=9, samples={1: "a", 4: "b"})


def test_lengths_samples_and_what_cannot_be_read_are_named() -> None:
    assert data_change(THEN, THEN) == ""
    assert "2" in data_sameness(THEN, THEN)
    assert data_change(THEN, None) == data_change(None, THEN) == data_sameness(None, THEN) == ""
    assert all(text in data_change(THEN, DataFacts(length=8)) for text in ("8", "9"))
    changed = data_change(THEN, DataFacts(length=9, samples={1: "a", 4: "c"}))
    assert all(text in changed for text in ("ample 4", "1 of 2"))
    assert data_change(THEN, DataFacts(length=9, problem="No file.")) == "No file."


@pytest.mark.usefixtures("processes")
def test_a_sample_that_has_changed_since_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((32, 4), "float32")
    np.save(tmp_path / "images.npy", images)
    recipe = tmp_path / "files.py"
    recipe.write_text(RECIPE)
    given = spec(str(recipe), "torch/single", batch_size=8, steps=4)
    run = client.start(given)
    wait_for_end(run)
    assert replay(run, 4).reasons == ()
    changed = min(chosen(32, given.seed))
    images[changed] += 1
    np.save(tmp_path / "images.npy", images)
    found = replay(run, 4)
    assert found.difference is not None
    assert f"ample {changed} " in found.reasons[0]
    images[:] = np.nan
    np.save(tmp_path / "images.npy", images)
    with pytest.raises(CannotReplay, match=r"no image.*sample \d+"):
        replay(run, 4)
