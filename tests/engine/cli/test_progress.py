"""Which events of a run are lines on the command line."""

from __future__ import annotations

import pytest

from engine.cli.progress import ProgressView
from engine.interface.news.run_news import RunUpdate
from engine.messages.events import Alarm, EpochEnded, Event, Metrics, Notice
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.store_reader import StoredEvent


def printed(event: Event, capsys: pytest.CaptureFixture[str]) -> str:
    with ProgressView("a run") as view:
        view.show(RunUpdate(RunStatus(epochs=3), RunState.RUNNING, [StoredEvent(1, 1.0, event)]))
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Alarm("GPU-1", "hot", "GPU 1 is hot.", True), "GPU 1 is hot.\n"),
        (Alarm("GPU-1", "hot", "GPU 1 has cooled down.", False), "GPU 1 has cooled down.\n"),
        (Notice("The disk is nearly full."), "The disk is nearly full.\n"),
        (EpochEnded(1, 10, {}), "epoch 1/3  step 10"),
        (EpochEnded(2, 20, {"validation/loss": 0.5}), "epoch 2/3  step 20  validation/loss 0.5"),
    ],
)
def test_important_events_are_lines(
    event: Event, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(event, capsys).startswith(line)


def test_metrics_are_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Metrics(0.0, 1.0, []), capsys).strip() == ""
