"""The TensorBoard log of a real run that is killed and goes on: what readers see is the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import client
from engine.imports.import_runs import import_runs
from engine.runs.run_state import RunState
from engine.spec import catalog
from tests.support.contract import kill_when_held, probe
from tests.support.runs import curve, wait_for_end, wait_until_gone

HALF = 10


@pytest.mark.usefixtures("processes")
def test_the_log_of_a_killed_and_resumed_run_holds_the_run(tmp_path: Path) -> None:
    spec = probe(
        catalog.strategy("torch/single"),
        settings={"hold": True},
        checkpoint_steps=HALF,
        tensorboard=True,
        tensorboard_folder=str(tmp_path / "logs"),
    )
    run_id = client.start(spec)
    kill_when_held(run_id, HALF)
    client.resume(run_id, spec=replace(spec, settings={}))
    run = wait_for_end(run_id)
    assert run.state is RunState.FINISHED, run.reason
    wait_until_gone(run)  # it writes what is left as the last thing
    (log,) = (tmp_path / "logs").iterdir()
    assert log.name.startswith(f"{run_id}-")
    # One for each attempt; the first may be killed before it has written any.
    assert len(list(log.glob("events.out.tfevents.*"))) in (1, 2)
    found = import_runs([log])
    assert found.remarks == []
    again = client.get_run(found.run_ids[0])
    for series in ("train/loss", "validation/loss", "train/learning_rate"):
        assert curve(run, series)[0], series
        assert curve(again, series) == curve(run, series), series
