"""A stopped run of the newest format, with a checkpoint, to be damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.repair.home_check import check_home
from engine.repair.report import Damage, Report
from engine.repair.run_check import check_run
from engine.system import paths
from tests.support.old_runs import NEWEST, restore_run

Check = Callable[..., list[Damage]]


@pytest.fixture(autouse=True)
def no_run_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a run was not created a moment ago, as by a start that goes on."""
    monkeypatch.setattr("engine.runs.run_info.LONGEST_START", -1.0)


@pytest.fixture
def run() -> Path:
    """The folder of run 1."""
    return restore_run(NEWEST)


@pytest.fixture
def check() -> Check:
    """Checks all runs and the data folder; `repair=True` mends them."""

    def make(*, repair: bool = False) -> list[Damage]:
        report = Report(repair=repair)
        for run_id in paths.run_ids():
            check_run(run_id, report)
        check_home(report)
        return report.findings

    return make
