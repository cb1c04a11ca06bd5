"""The progress of a run in words."""

from __future__ import annotations

from pathlib import Path

from engine.client import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from gui.run_view.progress_text import status_line
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1", "gpus/cpu:0"))


def line(state: RunState, reason: str = "", ready: int = 0) -> str:
    status = RunStatus(state=state, worker_pids=(10, 11), workers_ready=ready, step=43)
    return status_line(RunInfo("1", Path("runs/1"), SPEC, status, state, reason))


def test_workers_get_ready_only_while_the_run_starts() -> None:
    assert line(RunState.STARTING, ready=1) == sentence("starting-of-workers-ready")
    assert line(RunState.RUNNING, ready=2) == "Running."
    assert line(RunState.PAUSED, ready=2) == "Paused."


def test_the_reason_of_a_state_is_said() -> None:
    assert line(RunState.FINISHED, "All 5 epochs are done.") == "All 5 epochs are done."
    assert line(RunState.QUEUED, "Behind run 3.") == "Behind run 3."
