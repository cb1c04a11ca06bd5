"""`doctor`: checks whether a machine can train; with `--full`, also trains with each strategy."""

from __future__ import annotations

import time
from pathlib import Path

from rich.status import Status

from engine.cli.findings_output import print_finding
from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Interrupted, Refused, err, out, print_json
from engine.cli.transfers import check_target
from engine.doctor.finding import problems_text
from engine.interface.engine import Engine
from engine.interface.values import ExaminationPart
from engine.system.cancelled import Cancelled


def doctor(
    engine: Engine, *, json: bool, full: bool, environment: str | None, output: Path | None
) -> Exit:
    """Make all checks, and print each one as it ends; the exit code says whether one has failed.

    `environment` is a registered name, a path, or None: what recipes of each framework are trained
    with. `output` is the file of a full examination; None: a new one in the working folder. Raises
    Refused, Interrupted, NoInterpreter, OSError.
    """
    if output is not None and not full:
        raise Refused("Only the full examination writes a file: add `--full`.")
    if output is not None:
        check_target(output)
    parts: list[ExaminationPart] = []
    with Status("", console=err()) as status, CtrlC() as ctrl_c:

        def take(part: ExaminationPart) -> None:
            if part.doing:
                status.update(f"checks {part.doing}")
                return
            parts.append(part)
            if part.finding is not None and not json:
                print_finding(part.finding)

        try:
            engine.examine("full" if full else "thorough", environment or "", take, ctrl_c.event)
        except Cancelled as error:
            raise Interrupted("The examination was interrupted.") from error
    found = [part.finding for part in parts if part.finding is not None]
    file = output or Path.cwd() / f"traindeck-report-{time.strftime('%Y%m%d-%H%M%S')}.txt"
    if full:
        file.write_text(engine.report_checks(parts), encoding="utf-8")
    if json:
        print_json(found)
    else:
        out().print(problems_text(found), soft_wrap=True)
    if full and output is None:
        text = f"The report, for an issue, is in {file}: read it before you send it."
        err().print(text, soft_wrap=True)
    return Exit.FAILED if any(check.level == "error" for check in found) else Exit.DONE
