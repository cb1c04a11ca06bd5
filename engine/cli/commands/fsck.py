"""`fsck`: checks the files of runs and of the data folder, and mends them if it may."""

from __future__ import annotations

from collections.abc import Sequence

from rich.status import Status

from engine.cli.output import Exit, err, out, print_json
from engine.interface.engine import Engine
from engine.interface.values import CheckedFiles
from engine.repair.report import Damage, Outcome
from engine.system.program import call


def fsck(engine: Engine, run_ids: Sequence[str], *, repair: bool, json: bool) -> Exit:
    """Check the runs `run_ids`, or all runs and the data folder; print what is wrong.

    The exit code says whether anything is still wrong. Raises NoSuchRun.
    """
    with Status("", console=err()) as status:

        def tell(text: str) -> None:
            status.update(f"checks {text}")

        checked = engine.check_files(tuple(run_ids), repair, tell)
    if json:
        print_json({"runs": checked.runs, "findings": checked.findings})
    else:
        for finding in checked.findings:
            out().print(_line(finding), soft_wrap=True)
        out().print(_summary(engine, checked, list(run_ids)), soft_wrap=True)
    return Exit.FAILED if any(each.remains for each in checked.findings) else Exit.DONE


def _line(finding: Damage) -> str:
    where = f"run {finding.run}" if finding.run else "data folder"
    parts = (finding.file and f"{finding.file}:", finding.problem, finding.action)
    return f"{where}: {' '.join(part for part in parts if part)}"


def _summary(engine: Engine, checked_files: CheckedFiles, run_ids: Sequence[str]) -> str:
    runs = len(checked_files.runs)
    found = [each for each in checked_files.findings if each.outcome is not Outcome.LEFT_ALONE]
    count = {outcome: sum(each.outcome is outcome for each in found) for outcome in Outcome}
    checked = f"{runs} run{'' if runs == 1 else 's'}{'' if run_ids else ' and the data folder'}"
    if not found:
        return f"Checked {checked}: nothing is damaged."
    text = f"Checked {checked}: {len(found)} problem{'' if len(found) == 1 else 's'}"
    counts = [f"{count[each]} {each}" for each in Outcome if count[each]]
    text = f"{text}, of which {', '.join(counts)}." if len(found) > 1 else f"{text}."
    if count[Outcome.MENDABLE]:
        command = call(" ".join(["fsck", *run_ids, "--repair"]), engine.machine)
        text += f" `{command}` mends what can be mended, and keeps what it replaces."
    return text
