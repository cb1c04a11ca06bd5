"""Twin runs in the background: why none is started."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.planning.twins import Twins
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits_keras", strategy="tf/single", devices=("cpu:0",))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (replace(SPEC, recipe="digits"), "digits is a torch recipe"),
        (replace(SPEC, batch_size=0), sentence("batch-size-must-be-at-least")),
    ],
)
def test_what_cannot_train_under_both_is_refused_and_leaves_no_run(
    spec: RunSpec, text: str, qtbot: QtBot
) -> None:
    twins = Twins(Background())
    for _ in range(2):  # the first refusal does not block the next start
        with qtbot.waitSignal(twins.refused, timeout=60_000) as refused:
            twins.start(spec, catalog.recipe(spec.recipe))
        assert text in refused.args[0]
    assert paths.run_ids() == []
