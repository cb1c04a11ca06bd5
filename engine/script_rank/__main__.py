"""One rank of a script: `python -m engine.script_rank RUN_DIR`, with the variables of torchrun.

It imports no framework. The user's command is its child, and knows nothing of the run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import cast

from engine.processes import children, presence
from engine.processes.control_group import ControlGroup
from engine.processes.process import ORPHANED, leave, on_leave, write_stacks_when_asked
from engine.script_rank.launch import launch_of
from engine.script_rank.rank import Rank
from engine.script_rank.script_strategy import ScriptStrategy
from engine.scripts.command import CommandProblem
from engine.system import logs
from engine.system.paths import helper_stacks_file, stacks_file, workers_lock
from engine.system.streams import flush_output, write_error
from engine.training.errors import TrainingFailed
from engine.worker import environment, output, signals
from engine.worker.failure_report import failure_report
from engine.worker.session import WorkerSession

_log = logging.getLogger("engine.script_rank")

TERMINATE_SECONDS = 2.0
"""Time for the command after SIGTERM, when the supervisor ends its workers at once."""


class CannotRun(TrainingFailed):
    """The command could not be started; the text is a sentence."""


def main(folder: Path) -> int:
    """Run the command of the run in `folder` as one rank; return the exit code, or -n for the
    signal n that has ended the command."""
    rank_number = int(os.environ["RANK"])
    output.survive_full_disk()
    logs.start(f"rank{rank_number}", folder / "logs")
    faulthandler.enable()
    stacks = stacks_file(folder, rank_number)
    for old in stacks.parent.glob(helper_stacks_file(stacks, 0).name.replace("0.txt", "*.txt")):
        old.unlink()  # of an earlier attempt: another process may have the pid in its name now
    write_stacks_when_asked(stacks)
    if group := os.environ.get(environment.CONTROL_GROUP):
        with contextlib.suppress(OSError):  # then what it starts is found by its parents alone
            ControlGroup(Path(group)).enter()
    children.adopt_orphans()
    children.Reaper().start()
    with contextlib.suppress(OSError):
        presence.hold(workers_lock(folder))
    running: list[Rank] = []

    def end_at_once() -> None:
        if running:
            running[0].end_now(TERMINATE_SECONDS)
        leave(signals.TERMINATED)

    session = WorkerSession(folder, end_at_once)
    _log.info("connected; devices %s, strategy %s", session.devices, session.strategy.name)
    signals.ignore_in_worker()
    on_leave(lambda code: running[0].kill() if running else None)
    code = 1
    try:
        launch = launch_of(os.environ, session.rank, session.world_size)
        strategy = cast(ScriptStrategy, session.strategy)
        try:
            running.append(Rank(session, strategy, launch))
        except CommandProblem as error:
            raise CannotRun(str(error)) from None
        except OSError as error:
            raise CannotRun(f"The command could not be started: {error}.") from error
        code = running[0].run()
    except BaseException as error:
        report = failure_report(session.rank, session.recipe, error)
        _log.info("fails: %s", report.message, exc_info=True)
        write_error(report.traceback)
        session.emit(report)
    finally:
        if running:
            running[0].kill()
        flush_output()
        session.close()
        if session.is_orphaned and session.rank == 0:  # else the supervisor removes it
            shutil.rmtree(os.environ[environment.EXCHANGE], ignore_errors=True)
        _log.info("exits with %d", code)
    if session.is_orphaned:
        return ORPHANED
    is_own = code in (ORPHANED, signals.TERMINATED) and not running[0].is_ended_now
    return 1 if is_own else code  # these codes of the command would have another meaning


def end_as(code: int) -> None:
    """End this process as its command has ended, so that the supervisor sees the same signal."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        faulthandler.disable()
        os.kill(os.getpid(), -code)
    leave(code & 0xFF or int(code != 0))


if __name__ == "__main__":
    end_as(main(Path(sys.argv[1])))
