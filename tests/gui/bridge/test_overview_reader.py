"""Why nothing is known of a run is a sentence, and the next question is answered."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from engine import client
from gui.bridge.background import Background
from gui.bridge.overview_reader import OverviewReader
from tests.gui.conftest import Record


def test_a_run_that_was_deleted_meanwhile_is_told(record: Record, qtbot: QtBot) -> None:
    run = record()
    run.begin()
    info = client.get_run(run.id)
    background = Background()
    reader = OverviewReader(background)
    for read in (
        lambda gone: reader.read(gone, {}),
        lambda gone: reader.read_diff(gone, 1),
        reader.read_recipe,
    ):
        with qtbot.waitSignal(reader.failed) as told:
            read(info._replace(id="77"))
        assert "There is no run 77" in told.args[0]
    with qtbot.waitSignal(reader.found):
        reader.read(info, {})
    background.finish()
