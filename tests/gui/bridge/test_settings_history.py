"""The changes of settings are read when a later attempt begins, and silence has a reason."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from engine.messages.events import AttemptStarted
from engine.runs.store.store_reader import StoredEvent
from engine.spec.spec_file import replaced_spec
from gui.bridge.background import Background
from gui.bridge.settings_history import SettingsEdits
from tests.gui.conftest import SPEC, Record
from tests.support.sentences import sentence

LATER = [StoredEvent(1, 0.0, AttemptStarted(2, 1, 0.0))]


@pytest.fixture
def edits(qtbot: QtBot) -> Iterator[SettingsEdits]:
    background = Background()
    yield SettingsEdits(background)
    background.finish()


def test_a_later_attempt_has_the_changes_read(
    edits: SettingsEdits, record: Record, qtbot: QtBot
) -> None:
    run = record()
    with replaced_spec(run.folder, msgspec.structs.replace(SPEC, epochs=9), 2):
        pass
    edits.add_events(LATER)  # no run is watched
    edits.watch(run.id)
    edits.add_events([StoredEvent(0, 0.0, AttemptStarted(1, 1, 0.0))])
    with qtbot.waitSignal(edits.changed) as told:
        edits.add_events(LATER)
    assert told.args == [{2: "epochs 2 → 9"}]


def test_a_machine_that_does_not_answer_is_told(edits: SettingsEdits, qtbot: QtBot) -> None:
    edits.watch("gpus:1")
    with qtbot.waitSignal(edits.trouble) as told:
        edits.add_events(LATER)
    assert sentence("settings-of-remote-run-are-not-known") in told.args[0]


def test_a_run_that_was_deleted_meanwhile_is_told(edits: SettingsEdits, qtbot: QtBot) -> None:
    edits.watch("7")
    with qtbot.waitSignal(edits.trouble) as told:
        edits.add_events(LATER)
    assert "There is no run 7" in told.args[0]
