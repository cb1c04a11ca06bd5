"""`fsck`: checks the files of runs and of the data folder, and mends them if it may."""

from __future__ import annotations

from collections.abc import Sequence

from rich.status import Status

from engine import client
from engine.cli.output import Exit, err, out, print_json
from engine.repair.home_check import check_home
from engine.repair.report import Finding, Outcome, Report
from engine.repair.run_check import check_run
from engine.runs import run_index
from engine.system import paths
from engine.system.program import call


def fsck(run_ids: Sequence[str], *, repair: bool, json: bool) -> Exit:
    """Check the runs `run_ids`, or all runs and the data folder; print what is wrong.

    The exit code says whether anything is still wrong. Raises NoSuchRun.
    """
    for run_id in run_ids:
        if not paths.is_run(run_id):
            client.get_run(run_id)  # raises NoSuchRun
    chosen = list(run_ids) or list(reversed(paths.run_ids()))
    report = _check(chosen, with_home=not run_ids, repair=repair)
    if json:
        print_json({"runs": chosen, "findings": report.findings})
    else:
        for finding in report.findings:
            out().print(_line(finding), soft_wrap=True)
        out().print(_summary(report, len(chosen), list(run_ids)), soft_wrap=True)
    return Exit.FAILED if any(each.remains for each in report.findings) else Exit.DONE


def _check(run_ids: Sequence[str], *, with_home: bool, repair: bool) -> Report:
    console = err()
    with Status("", console=console) as status:
        report = Report(repair=repair, progress=lambda text: status.update(f"checks {text}"))
        for run_id in run_ids:
            check_run(run_id, report)
        if with_home:
            check_home(report)
        if any(each.outcome is Outcome.MENDED for each in report.findings):
            run_index.RunIndex().runs()  # so that the mended runs are listed at once
    return report


def _line(finding: Finding) -> str:
    where = f"run {finding.run}" if finding.run else "data folder"
    parts = (finding.file and f"{finding.file}:", finding.problem, finding.action)
    return f"{where}: {' '.join(part for part in parts if part)}"


def _summary(report: Report, runs: int, run_ids: Sequence[str]) -> str:
    found = [each for each in report.findings if each.outcome is not Outcome.LEFT_ALONE]
    count = {outcome: sum(each.outcome is outcome for each in found) for outcome in Outcome}
    checked = f"{runs} run{'' if runs == 1 else 's'}{'' if run_ids else ' and the data folder'}"
    if not found:
        return f"Checked {checked}: nothing is damaged."
    text = f"Checked {checked}: {len(found)} problem{'' if len(found) == 1 else 's'}"
    counts = [f"{count[each]} {each}" for each in Outcome if count[each]]
    text = f"{text}, of which {', '.join(counts)}." if len(found) > 1 else f"{text}."
    if count[Outcome.MENDABLE]:
        command = call(" ".join(["fsck", *run_ids, "--repair"]))
        text += f" `{command}` mends what can be mended, and keeps what it replaces."
    return text
