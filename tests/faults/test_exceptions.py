"""A recipe that raises, wherever it may: its file and line and one sentence, almost at once.

The full traceback is for the log only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.messages.events import Restarting, RunEnded, WorkerFailed
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from gui.log.event_text import event_text
from tests.support.runs import failure_of, spec, train

pytestmark = pytest.mark.usefixtures("processes")

RECIPE = """
import time
import torch
from pathlib import Path
from torch import nn

steps = 0

def fail():
    Path(__file__).with_suffix(".time").write_text(repr(time.time()))
    raise ValueError("this makes no sense")  # here

# at import
def model():
    # in model
    return nn.Linear(4, 1)

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if index == 63:
            pass  # in a sample
        return torch.ones(4), torch.ones(1)

def datasets():
    # in datasets
    return Samples(), Samples()

def loss(outputs, targets):
    global steps
    steps += torch.is_grad_enabled()
    if steps == 7:
        pass  # in step 7
    return ((outputs - targets) ** 2).mean()
"""
REPLACED = """
import sys

class Silent:
    def write(self, text):
        return len(text)

class Refusing(Silent):
    def flush(self):
        raise RuntimeError("it cannot be flushed")

class Leaving(Silent):
    def flush(self):
        sys.exit(9)

class Closed:
    pass

"""
LONGEST = 60.0
"""Seconds from the exception to the terminal event; it takes one or two, more on a busy machine."""


@pytest.mark.parametrize(
    ("place", "options", "before"),
    [
        ("# at import", {"max_restarts": 5}, ""),
        ("pass  # in a sample", {"loader_workers": 1}, ""),
        ("pass  # in step 7", {}, f"{REPLACED}sys.stdout = sys.stderr = Closed()\n"),
    ],
    ids=["import", "loader worker", "step 7, without an output"],
)
def test_an_exception_is_the_recipes_line_and_a_sentence(
    place: str, options: dict[str, int], before: str, tmp_path: Path
) -> None:
    recipe = tmp_path / "broken.py"
    recipe.write_text(before + RECIPE.replace(place, "fail()"))
    info = train(spec(str(recipe), "torch/single", epochs=20, **options))
    failure = failure_of(info)
    assert (failure.rank, failure.device) == (0, "cpu:0")
    assert "ValueError: this makes no sense" in failure.message
    assert "\n" not in failure.message
    line = 1 + next(n for n, text in enumerate(recipe.read_text().splitlines()) if "# here" in text)
    assert failure.where == f"{recipe}:{line}"
    assert "Traceback" not in failure.log_tail
    log = (info.folder / "logs" / "rank0.log").read_text()
    assert "Traceback" in log
    assert "ValueError: this makes no sense" in log
    with RunReader(info.folder) as reader:
        stored = reader.events_after(0)
    restarts = [each for each in stored if isinstance(each.event, Restarting)]
    assert not restarts, "a run that fails before its first step is not restarted"
    for event in stored:
        if isinstance(event.event, WorkerFailed | RunEnded):
            shown = event_text(event.event)
            assert shown is not None
            assert "Traceback" not in shown.text
    seconds = stored[-1].time - float(recipe.with_suffix(".time").read_text())
    print(f"{place}: {seconds:.2f} s from the exception to the terminal event")
    assert seconds < LONGEST


@pytest.mark.parametrize(
    ("stream", "loaders"),
    [
        ("Leaving()", 0),
        ("Silent()", 1),
        *(
            pytest.param(each, 0, marks=pytest.mark.nightly)
            for each in ("None", "Refusing()", "Closed()")
        ),
    ],
)
def test_a_recipe_may_put_anything_in_the_place_of_its_output(
    stream: str, loaders: int, tmp_path: Path
) -> None:
    recipe = tmp_path / "redirecting.py"
    recipe.write_text(f"{REPLACED}sys.stdout = sys.stderr = {stream}\n{RECIPE}")
    info = train(spec(str(recipe), "torch/single", epochs=2, loader_workers=loaders))
    assert info.state is RunState.FINISHED, info.reason
