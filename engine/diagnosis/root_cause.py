"""Finds the first thing that went wrong in a pool, and says it in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.messages.events import Failure, WorkerFailed
from engine.spec.strategy import WorkerPlan
from engine.system.process import signal_name

TAIL_LINES = 20
TAIL_BYTES = 65_536
_LOST_PEER = 3
"""Least of all guilt."""


def find_failure(
    exits: Mapping[int, int],
    accounts: Mapping[int, WorkerFailed],
    plans: Sequence[WorkerPlan],
    logs: Mapping[int, Path],
) -> Failure:
    """The failure to show. `exits` holds exit codes by rank in the order in which they came in,
    without those of workers that we ended; `accounts` what workers said themselves.

    When one rank dies, the others soon fail too, because they lost it: a signal comes before an
    exception, an exception before a bad exit code, and a lost peer last. Where all that is known
    is that peers were lost, those that said nothing at all are to blame: they hang.
    """

    def guilt(rank: int) -> int:
        account = accounts.get(rank)
        if exits.get(rank, 0) < 0:
            return 0
        if account is None:
            return 2
        return _LOST_PEER if account.lost_peer else 1

    suspects = list(dict.fromkeys([*exits, *accounts]))
    if not suspects:
        return Failure(-1, "", 0, "", "The workers left without finishing the training.", "", "")
    rank = min(suspects, key=guilt)
    silent = [plan.rank for plan in plans if plan.rank not in suspects]
    if silent and guilt(rank) == _LOST_PEER:
        return _hanging(rank, [plans[silent_rank] for silent_rank in silent], logs)
    account = accounts.get(rank)
    code = exits.get(rank, 1)
    signal = signal_name(code)
    device = ", ".join(plans[rank].devices)
    who = plans[rank].who
    if signal:
        message = f"{who} was ended by {signal}{_SIGNAL_HINTS.get(signal, '')}."
    elif account:
        message = f"{who} failed: {account.message}"
    else:
        message = f"{who} ended with exit code {code} before the training was done."
    where = account.where if account else ""
    told = account.traceback if account else ""
    return Failure(rank, device, code, signal, message, where, tail(logs[rank], without=told))


_SIGNAL_HINTS = {
    "SIGKILL": " (killed from outside; when memory runs out, the system does that)",
    "SIGSEGV": " (a crash in native code)",
    "SIGABRT": " (native code gave up)",
}


def _hanging(rank: int, silent: Sequence[WorkerPlan], logs: Mapping[int, Path]) -> Failure:
    """`rank` lost one of these, which run and do not answer."""
    names = ", ".join(plan.who for plan in silent)
    message = f"{names} stopped answering: rank {rank} waited for it in vain."
    first = silent[0]
    return Failure(first.rank, ", ".join(first.devices), 0, "", message, "", tail(logs[first.rank]))


def tail(log: Path, without: str = "") -> str:
    """The last lines of a log; empty when there is none.

    `without` is left out: a traceback through the framework would push out what the recipe said.
    """
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.replace(without, "").strip().splitlines()[-TAIL_LINES:])
