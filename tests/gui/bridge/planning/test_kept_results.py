"""What was measured is kept, found again for the same recipe and devices, and copied to a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from engine.planning import kept
from engine.planning.kept import Earlier, measured_before
from engine.planning.results import Preflight, Race
from gui.bridge.background import Background
from gui.bridge.planning.kept_results import KeptResults
from tests.gui.conftest import SPEC
from tests.support.planning_program import ENTRY, FINDING

RACE = Race(entries=(ENTRY,), steps=20)
PREFLIGHT = Preflight(spec=SPEC, findings=(FINDING,))


@pytest.fixture
def results(traindeck_home: Path, qtbot: QtBot) -> Iterator[KeptResults]:
    background = Background()
    yield KeptResults(background)
    background.finish()


def test_what_was_measured_is_found_for_its_recipe(results: KeptResults, qtbot: QtBot) -> None:
    kept.keep(RACE)
    kept.keep(PREFLIGHT)
    for spec, earlier in (
        (SPEC, Earlier(RACE, PREFLIGHT)),
        (replace(SPEC, batch_size=7), Earlier(RACE, PREFLIGHT)),
        (replace(SPEC, devices=("cpu:0", "cpu:1")), Earlier()),
        (replace(SPEC, recipe="digits_keras"), Earlier()),
    ):
        with qtbot.waitSignal(results.found) as found:
            results.look(spec)
        assert found.args == [earlier, spec, ""]


def test_a_run_gets_what_was_measured_for_it(traindeck_home: Path) -> None:
    assert measured_before(SPEC) is None
    number = kept.keep(RACE)
    planning = measured_before(SPEC)
    assert planning.number == number
    assert measured_before(replace(SPEC, batch_size=7)) is None
