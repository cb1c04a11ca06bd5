"""Finds the root cause of a failure among the ranks of a pool, and puts it into a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.messages.events import Failure, WorkerFailed
from engine.processes.process import ORPHANED, UNKNOWN_EXIT, signal_name
from engine.spec.strategy import WorkerPlan

TAIL_LINES = 20
TAIL_BYTES = 65_536
_LOST_PEER = 3


def find_failure(
    exit_codes: Mapping[int, int],
    reports: Mapping[int, WorkerFailed],
    plans: Sequence[WorkerPlan],
    logs: Mapping[int, Path],
) -> Failure:
    """Return the failure that the user sees.

    `exit_codes` holds the exit codes by rank, in the order of the exits, without workers that the
    supervisor ended; `reports` holds the failure reports and `logs` the log files, by rank.

    When one rank dies, the others lose their connection to it and fail too. So the likeliest root
    cause is a signal, then an exception, then a bad exit code, then a lost peer. If all reports are
    of lost peers, the ranks that neither exited nor reported hang and are the root cause.
    """

    def code_of(rank: int) -> int:
        report = reports.get(rank)  # it may arrive before the system tells the exit
        return exit_codes.get(rank, report.exit_code if report else 1)

    def priority(rank: int) -> int:
        """Return 0 for the likeliest root cause."""
        report = reports.get(rank)
        if code_of(rank) < 0 or (report and report.kernel_fault):
            return 0
        if report is None:
            return 2
        return _LOST_PEER if report.lost_peer else 1

    failed = list(dict.fromkeys([*exit_codes, *reports]))
    if not failed:
        return Failure(-1, "", 0, "", "The workers exited without finishing the training.", "", "")
    rank = min(failed, key=priority)
    silent = [plan for plan in plans if plan.rank not in failed]
    if silent and priority(rank) == _LOST_PEER:
        return _hang_failure(rank, silent, logs)
    report = reports.get(rank)
    code = code_of(rank)
    # After a failed kernel, NCCL aborts the process.
    signal = "" if report and report.kernel_fault else signal_name(code)
    device = ", ".join(plans[rank].devices)
    label = plans[rank].label
    if signal:
        message = f"{label} was ended by {signal}{_SIGNAL_HINTS.get(signal, '')}."
    elif code == UNKNOWN_EXIT and not report:
        message = f"{label} ended; the system does not tell why, as its template has ended too."
    elif code == ORPHANED and not report:
        message = f"{label} {CUT_OFF}"
    elif report:
        message = f"{label} failed: {report.message}"
    else:
        message = f"{label} ended with exit code {code} before the training was done."
    where = report.where if report else ""
    traceback = report.traceback if report else ""
    log_tail = tail(logs[rank], without=traceback)
    details = report.details if report and not signal else ""
    return Failure(rank, device, code, signal, message, where, log_tail, details)


CUT_OFF = (
    "lost its connection to the supervisor, which lives: the recipe, or a process that it has "
    "started, may have closed it."
)
"""What happened to a worker that was alive when its connection ended; follows its name."""

_SIGNAL_HINTS = {
    "SIGKILL": " (killed from outside; when memory runs out or a limit of CPU time is reached, "
    "the system does that)",
    "SIGSEGV": " (a crash in native code)",
    "SIGABRT": " (native code called abort)",
}


def _hang_failure(rank: int, silent: Sequence[WorkerPlan], logs: Mapping[int, Path]) -> Failure:
    """`rank` lost one of the `silent` ranks, which are alive and do not answer."""
    names = ", ".join(plan.label for plan in silent)
    message = f"{names} stopped answering: rank {rank} waited for it in vain."
    first = silent[0]
    return Failure(first.rank, ", ".join(first.devices), 0, "", message, "", tail(logs[first.rank]))


def tail(log: Path, without: str = "") -> str:
    """Return the last lines of a log, after `without` is removed; empty if it cannot be read.

    Otherwise a long traceback would displace the output of the recipe.
    """
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.replace(without, "").strip().splitlines()[-TAIL_LINES:])
