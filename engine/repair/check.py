"""Checks the files of runs and of the data folder, and mends them if it may."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.client import get_run
from engine.repair.home_check import check_home
from engine.repair.report import Damage, Outcome, Report
from engine.repair.run_check import check_run
from engine.runs import run_index
from engine.system import paths


def check_files(
    runs: Sequence[str], *, repair: bool, progress: Callable[[str], None]
) -> tuple[list[str], list[Damage]]:
    """Check these runs; none: all runs and the data folder. Return the runs, and what is wrong.

    Raises NoSuchRun.
    """
    for run in runs:
        if not paths.is_run(run):
            get_run(run)  # raises NoSuchRun
    chosen = list(runs) or list(reversed(paths.run_ids()))
    report = Report(repair=repair, progress=progress)
    for run in chosen:
        check_run(run, report)
    if not runs:
        check_home(report)
    if any(each.outcome is Outcome.MENDED for each in report.findings):
        run_index.RunIndex().runs()  # so that the mended runs are listed at once
    return chosen, report.findings
