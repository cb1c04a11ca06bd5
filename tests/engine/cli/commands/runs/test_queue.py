"""`queue` on the command line."""

from __future__ import annotations

import json
import os

import pytest

from engine.cli.commands.runs import queue
from engine.cli.output import Refused
from engine.client import NoSuchRun
from engine.interface.local_engine import LocalEngine
from engine.processes import process
from engine.runs import device_queue
from engine.runs.device_queue import CannotMoveRun, Ticket
from tests.support.recorded_runs import RUNNING, record_run
from tests.support.sentences import sentence

ENGINE = LocalEngine()


def enter() -> str:
    run = record_run(*RUNNING)
    run.store.close()
    born = process.start_time(os.getpid())
    device_queue.enter(Ticket(run.id, os.getpid(), born, ("cpu:0",), ("cpu:0",)))
    return run.id


def test_it_lists_running_and_waiting_runs_and_changes_the_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert queue.show(ENGINE, json=False) == 0
    assert "No run is active" in capsys.readouterr().out
    first, second, third = enter(), enter(), enter()
    queue.show(ENGINE, json=False)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split("  ")[0] for line in lines] == [
        f"digits · single · #{run}" for run in (first, second, third)
    ]
    assert "Uses them." in lines[0]
    assert sentence("queued-behind-run-on-cpu-next", first=first) in lines[1]
    queue.move_run(ENGINE, third, "first", json=True)
    printed = json.loads(capsys.readouterr().out)
    assert [(each["id"], each["place"]) for each in printed] == [
        (first, "inside"),
        (third, "waiting"),
        (second, "waiting"),
    ]


def test_a_move_that_makes_no_sense_is_refused() -> None:
    first, second = enter(), enter()
    for run, where, why in (
        (first, "up", "does not wait"),
        (second, "up", "first in line already"),
        (second, "left", "up, down or first"),
    ):
        with pytest.raises((Refused, CannotMoveRun), match=why):
            queue.move_run(ENGINE, run, where, json=False)
    with pytest.raises(NoSuchRun):
        queue.move_run(ENGINE, "99", "up", json=False)
