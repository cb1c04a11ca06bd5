"""The output of a forked worker is that of a started one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.messages.events import Notice
from engine.runs.run_state import RunState
from tests.support.runs import RECIPES, events, spec, train

pytestmark = pytest.mark.usefixtures("processes")

TALKATIVE = """

import logging
import sys
import warnings

wrapped = keras.wrappers.SKLearnClassifier(model)
print("a line of stdout", type(wrapped).__name__)
print("a line of stderr", file=sys.stderr)
warnings.warn("a warning of the recipe", stacklevel=1)
logging.warning("a line of the root logger")
logging.getLogger("recipe").error("a line of a logger")
os.write(2, b"a line past Python\\n")
"""


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["tf/single", "torch/keras_ddp"])
@pytest.mark.nightly
def test_the_logs_of_forked_and_started_workers_are_equal(strategy: str, tmp_path: Path) -> None:
    """The recipe uses the wrappers of Keras for scikit-learn, which is hidden from other recipes
    while a started worker imports Keras."""
    recipe = tmp_path / "talkative.py"
    recipe.write_text((RECIPES / "probe_keras.py").read_text() + TALKATIVE)
    texts = []
    for cold_start in (False, True):
        wanted = spec(str(recipe), strategy, 1, epochs=1, cold_start=cold_start)
        info = train(wanted)
        assert info.state is RunState.FINISHED, info.reason
        assert not [event.text for event in events(info) if isinstance(event, Notice)]
        text = (info.folder / "logs" / "rank0.log").read_text()
        texts.append(text.replace(str(info.folder), "RUN"))
    assert texts[0] == texts[1]
    assert "a line of stdout SKLearnClassifier" in texts[0]
    assert "a line past Python" in texts[0]
