"""Runs for tests of the table: made in memory, without a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.processes.machine import Machine
from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec

BEGIN = 1_760_000_000.0


def made_run(
    number: int,
    *,
    metrics: dict[str, float] | None = None,
    best: dict[str, float] | None = None,
    tags: tuple[str, ...] = (),
    note: str = "",
    state: RunState = RunState.FINISHED,
    created: float = BEGIN,
    seconds: float = 60.0,
    host: str = "",
    **spec: Any,
) -> RunInfo:
    """Return a run as the list of runs has it."""
    settings = {"recipe": "digits", "strategy": "torch/single", "devices": ("cpu:0",)} | spec
    status = RunStatus(
        state=state,
        started=created,
        attempt_started=created,
        updated=created + seconds,
        metrics=metrics or {},
        machine=Machine(host=host),
    )
    figures = {name: BestFigure(value, 10) for name, value in (best or {}).items()}
    notes = RunNotes(tags=tags, note=note)
    folder = Path("runs") / str(number)
    return RunInfo(str(number), folder, RunSpec(**settings), status, state, "", notes, figures)
