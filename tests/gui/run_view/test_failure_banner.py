"""Why a run failed, in sight until it is dismissed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.messages.events import AttemptStarted, Failure, RunEnded
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.store_reader import StoredEvent
from engine.spec.run_spec import RunSpec
from gui.run_view.failure_banner import FailureBanner, failure_facts
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
FAILURE = Failure(1, "cpu:1", -9, "SIGKILL", "killed", "recipe.py:12", "one\ntwo\n")


def info(state: RunState, reason: str = "") -> RunInfo:
    return RunInfo("7", Path("runs/7"), SPEC, RunStatus(state=state), state, reason)


@pytest.fixture
def banner(qtbot: QtBot) -> FailureBanner:
    banner = FailureBanner()
    qtbot.addWidget(banner)
    return banner


def test_a_failure_says_who_how_where_and_the_last_lines_with_the_names_of_gpus(
    banner: FailureBanner,
) -> None:
    banner.add_events([StoredEvent(9, 0.0, RunEnded("failed", "Rank 1 was killed.", FAILURE))])
    banner.show_info(info(RunState.FAILED, "Rank 1 was killed."))
    assert banner.isVisible()
    assert banner.sentence.text() == sentence("banner-run-failed", reason="Rank 1 was killed.")
    assert banner.facts.text() == "rank 1 · cpu:1 · SIGKILL · in recipe.py:12"
    assert banner.log.toPlainText() == "one\ntwo"
    banner.clear()
    failure = Failure(1, "GPU-5c1e", -9, "SIGKILL", "killed", "", "")
    banner.set_device_names({"GPU-3f6b": "GPU 0", "cpu": "CPU"})
    banner.add_events([StoredEvent(9, 0.0, RunEnded("failed", "", failure))])
    banner.show_info(info(RunState.FAILED, "Rank 1 on GPU-5c1e was killed."))
    assert "GPU-5c1e" in banner.sentence.text()
    banner.set_device_names({"GPU-3f6b": "GPU 0", "GPU-5c1e": "GPU 1", "cpu": "CPU"})
    assert banner.sentence.text() == sentence(
        "banner-run-failed", reason="Rank 1 on GPU 1 was killed."
    )
    assert banner.facts.text() == "rank 1 · GPU 1 · SIGKILL"


def test_the_rest_of_an_exceptions_text_is_shown_apart_from_the_log(banner: FailureBanner) -> None:
    details = "Indices without a gradient: 2 3\n\x1b[31mmore" + "\nlast" * 20
    failure = replace(FAILURE, details=details)
    banner.add_events([StoredEvent(9, 0.0, RunEnded("failed", "Rank 1 failed.", failure))])
    banner.show_info(info(RunState.FAILED, "Rank 1 failed."))
    shown = banner.details.text()
    assert shown.startswith("Indices without a gradient: 2 3\nmore\nlast\n")
    assert shown.endswith(sentence("and-more-lines-in-log"))
    assert banner.log_title.isVisible()
    assert banner.log_title.text() == sentence("last-lines-of-log")
    banner.add_events(
        [StoredEvent(10, 0.0, RunEnded("failed", "Other.", replace(FAILURE, log_tail="")))]
    )
    banner.show_info(info(RunState.FAILED, "Other."))
    assert not banner.details.isVisible()
    assert not banner.log_title.isVisible()


def test_dismissed_it_stays_away_and_comes_back_with_another_failure(banner: FailureBanner) -> None:
    banner.show_info(info(RunState.FAILED, "First."))
    QTest.mouseClick(banner.dismiss, Qt.MouseButton.LeftButton)
    banner.show_info(info(RunState.FAILED, "First."))
    assert not banner.isVisible()
    banner.add_events([StoredEvent(10, 0.0, AttemptStarted(2, 1, 0.0))])
    banner.show_info(info(RunState.RUNNING))
    assert not banner.isVisible()
    banner.show_info(info(RunState.FAILED, "First."))
    assert banner.isVisible()


@pytest.mark.parametrize("state", sorted({*RunState} - {RunState.FAILED, RunState.INTERRUPTED}))
def test_nothing_is_said_of_runs_that_are_well(banner: FailureBanner, state: RunState) -> None:
    banner.show_info(info(state, "Everything is fine."))
    assert not banner.isVisible()


def test_an_interrupted_run_says_so_without_an_older_failure(banner: FailureBanner) -> None:
    banner.show_info(info(RunState.INTERRUPTED, "Its supervisor is gone."))
    assert banner.sentence.text() == sentence("run-was-interrupted-supervisor-is-gone")
    assert not banner.log.isVisible()


def test_facts_leave_out_what_is_unknown() -> None:
    assert failure_facts(Failure(-1, "", 1, "", "", "", "")) == "exit code 1"


def test_what_is_wrong_with_a_run_that_goes_on_is_said_while_it_is(banner: FailureBanner) -> None:
    status = RunStatus(state=RunState.RUNNING, troubles={"hang": "No step for 2 min."})
    trouble = info(RunState.RUNNING)._replace(status=status)
    banner.show_info(trouble)
    assert banner.isVisible()
    assert banner.sentence.text() == sentence("run-no-step-for-min")
    assert banner.stop.isVisible()
    QTest.mouseClick(banner.dismiss, Qt.MouseButton.LeftButton)
    banner.show_info(trouble)
    assert not banner.isVisible()
    banner.show_info(info(RunState.RUNNING))
    banner.show_info(trouble)
    assert banner.isVisible(), "it came again"
    banner.show_info(info(RunState.RUNNING))
    assert not banner.isVisible()
    banner.show_info(info(RunState.FAILED, "First."))
    assert banner.isVisible()
    assert not banner.stop.isVisible(), "there is nothing to stop"


def test_the_place_of_an_error_is_opened_in_an_editor(banner: FailureBanner, qtbot: QtBot) -> None:
    failure = replace(FAILURE, where="/home/me/net.py:31")
    banner.add_events([StoredEvent(9, 0.0, RunEnded("failed", "It was killed.", failure))])
    banner.show_info(info(RunState.FAILED, "It was killed."))
    assert banner.edit.isVisible()
    with qtbot.waitSignal(banner.edit_clicked) as asked:
        QTest.mouseClick(banner.edit, Qt.MouseButton.LeftButton)
    assert asked.args == [(Path("/home/me/net.py"), 31)]
    banner.clear()
    banner.add_events([StoredEvent(9, 0.0, RunEnded("failed", "Elsewhere.", FAILURE))])
    banner.show_info(info(RunState.FAILED, "Elsewhere."))
    assert not banner.edit.isVisible(), "the place has no path"
