"""`doctor`: checks whether this machine can train; with `--full`, also trains each strategy."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from rich.status import Status

from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Interrupted, Refused, err, out, print_json
from engine.cli.strategy_trials import trials
from engine.doctor import report
from engine.doctor.check import Check
from engine.doctor.examination import OURS, Examination, Pythons, usual_pythons
from engine.environments.registry import UnreadableRegistry
from engine.planning.own_data_folder import own_data_folder
from engine.scripts.interpreters import NoInterpreter, interpreter_of
from engine.system.cancelled import Cancelled
from engine.system.program import call
from engine.telemetry.helper_client import snapshot_once

_STYLES = {True: "green", False: "bold red", None: "dim"}


def doctor(*, json: bool, full: bool, environment: str | None, output: Path | None) -> Exit:
    """Make all checks, and print each one as it ends; the exit code says whether one has failed.

    `environment` is a registered name, a path, or None: what recipes of each framework are trained
    with. `output` is the file of a full examination; None: a new one in the working folder. Raises
    Refused, Interrupted, OSError.
    """
    if output is not None and not full:
        raise Refused("Only the full examination writes a file: add `--full`.")
    if output is not None and os.path.lexists(output):
        raise Refused(f"{output} exists already: choose another name, or remove it.")
    found: list[Check] = []
    try:
        pythons = _pythons(environment)
    except UnreadableRegistry as error:  # it is what is to be told, and no reason to tell no more
        pythons = OURS
        text = f"{str(error)[:1].upper()}{str(error)[1:].partition(': `')[0]}."
        found.append(Check("environments", False, text, f"`{call('fsck --repair')}` mends it."))
        if not json:
            _print(found[0])
    parts: dict[str, str] = {}
    with Status("", console=err()) as status, CtrlC() as ctrl_c:

        def progress(what: str) -> None:
            status.update(f"checks {what}")

        for check in _checks(pythons, full, ctrl_c, progress, parts):
            found.append(check)
            if not json:
                _print(check)
    file = _write(found, parts, output) if full else None
    if json:
        print_json(found)
    else:
        out().print(report.summary(found), soft_wrap=True)
    if file and output is None:
        err().print(about_report(file), soft_wrap=True)
    return Exit.FAILED if any(check.ok is False for check in found) else Exit.DONE


def _pythons(environment: str | None) -> Pythons:
    try:
        if not environment:
            return usual_pythons()
        python = interpreter_of(environment, Path.cwd())
    except NoInterpreter as error:
        raise Refused(str(error)) from error
    return Pythons(python, python)


def _checks(
    pythons: Pythons,
    full: bool,
    ctrl_c: CtrlC,
    progress: Callable[[str], None],
    parts: dict[str, str],
) -> Iterator[Check]:
    """Yield all checks; `parts` takes what the report says besides. Raises Interrupted."""
    examination = Examination(pythons, is_cancelled=lambda: ctrl_c.count > 0, progress=progress)
    try:
        for check in examination.thorough():
            yield check
    except Cancelled as error:
        raise Interrupted("The examination was interrupted.") from error
    if not full:
        return
    parts["Driver"] = msgspec.json.format(msgspec.json.encode(examination.driver)).decode()
    parts["Devices"] = _devices()
    logs = []
    with own_data_folder("doctor"):
        for check, log in trials(examination.given.uuids, pythons, ctrl_c, progress):
            yield check
            if log:
                logs.append(f"{check.check}\n{log}")
    parts["Logs of what failed"] = "\n\n".join(logs) or "nothing failed"


def _devices() -> str:
    """Return the state of the devices, without the processes of users."""
    snapshot = snapshot_once()
    devices = [msgspec.structs.replace(device, processes=None) for device in snapshot.devices]
    without = msgspec.structs.replace(snapshot, devices=tuple(devices))
    return msgspec.json.format(msgspec.json.encode(without)).decode()


def _print(check: Check) -> None:
    out().print(report.check_lines(check), style=_STYLES[check.ok], soft_wrap=True)
    sys.stdout.flush()


def new_report() -> Path:
    """Return the path of a report in the working folder that begins now."""
    return Path.cwd() / f"traindeck-report-{time.strftime('%Y%m%d-%H%M%S')}.txt"


def about_report(file: Path) -> str:
    """Return what is said of a report that was written."""
    return f"The report, for an issue, is in {file}: read it before you send it."


def _write(found: list[Check], parts: dict[str, str], output: Path | None) -> Path:
    """Write the report, and return its path. Raises OSError."""
    file = output or new_report()
    file.write_text(report.report_text(found, parts, now=time.time()), encoding="utf-8")
    return file
