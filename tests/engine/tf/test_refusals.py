"""What TensorFlow trainers refuse, with the reason; each test has a real worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.runs.run_state import RunState
from tests.support.runs import RECIPES, logs, spec, train
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.parametrize(
    ("datasets", "said"),
    [
        ("(np.ones((8, 8, 8)), np.ones(7)), (np.ones((8, 8, 8)), np.ones(8))", "8 inputs but 7"),
        pytest.param("iter(()), iter(())", sentence("pair-of-arrays"), marks=pytest.mark.nightly),
    ],
)
def test_data_sets_of_a_wrong_type_are_named(tmp_path: Path, datasets: str, said: str) -> None:
    source = (RECIPES / "probe_keras.py").read_text()
    head, _, rest = source.partition("def datasets()")
    _, _, tail = rest.partition("def metrics(")
    recipe = tmp_path / "wrong_data.py"
    recipe.write_text(f"{head}def datasets():\n    return {datasets}\n\n\ndef metrics({tail}")
    info = train(spec(str(recipe), "tf/single"))
    assert info.state is RunState.FAILED
    assert said in info.reason, logs(info)
