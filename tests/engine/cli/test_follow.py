"""The end of a run that was followed: also of one whose store was deleted meanwhile."""

from __future__ import annotations

import pytest

from engine.cli.follow import report_end
from engine.cli.output import Unanswered
from engine.interface.local_engine import LocalEngine
from engine.runs.run_info import DamagedRun, get_run
from tests.support.recorded_runs import SPEC, RecordedRun


def test_a_store_that_was_deleted_is_told() -> None:
    run = RecordedRun(SPEC)
    assert get_run(run.id).id == run.id
    (run.folder / "run.sqlite-wal").touch()
    (run.folder / "run.sqlite").unlink()
    with pytest.raises(DamagedRun, match="was deleted"):
        get_run(run.id)
    with pytest.raises(Unanswered, match="was deleted"):
        report_end(LocalEngine(), run.id, None, json=False)
