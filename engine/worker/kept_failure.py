"""Keeps what a worker fails with, for the failure file of the run, and reports the failure."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from engine.cases.evidence import Evidence, Kind, text_of, write_evidence
from engine.messages.events import WorkerFailed
from engine.training.probes.memory_record import is_asked
from engine.worker import environment
from engine.worker.session import WorkerSession

_log = logging.getLogger(__name__)

HANG_SECONDS = 2.0
"""A sample that is read for so long may be the one at which the run hangs."""

KEEP_SECONDS = 8.0
"""After it, the failure is reported in any case, and the supervisor ends this process."""


def report_and_keep(
    session: WorkerSession, trainer: Any, error: BaseException, report: WorkerFailed
) -> None:
    """Keep the step that has failed, then report the failure; an error of ours changes nothing.

    `trainer`: None if the recipe gave no model or no data.
    """
    is_told = threading.Lock()

    def tell() -> None:
        if is_told.acquire(blocking=False):
            session.emit(report)

    limit = threading.Timer(KEEP_SECONDS, tell)
    limit.daemon = True
    limit.start()
    try:
        # A lost peer tells nothing, and what goes on or is only measured has no failure file.
        if not (report.lost_peer or report.shrunk or is_asked()):
            _keep(session, trainer, error)
    except Exception:
        _log.exception("the failed step cannot be kept")
    finally:
        limit.cancel()
        tell()


def keep_hang(session: WorkerSession, trainer: Any) -> None:
    """Keep which sample this rank reads, if it does so for long. Raises OSError."""
    find = getattr(trainer, "long_read", None)
    if find is None or is_asked() or (found := find(HANG_SECONDS)) is None:
        return
    step, epoch, batch, indices = found
    attempt = int(os.environ.get(environment.ATTEMPT, "0"))
    evidence = Evidence(
        kind=Kind.HANG,
        attempt=attempt,
        rank=session.rank,
        step=step,
        epoch=epoch,
        batch=batch,
        reading=tuple(indices),
    )
    write_evidence(session.folder, evidence, {}, {})


def _keep(session: WorkerSession, trainer: Any, error: BaseException) -> None:
    if trainer is not None:
        if (keep := getattr(trainer, "keep_failure", None)) is not None:
            keep(error)
        return
    attempt = int(os.environ.get(environment.ATTEMPT, "0"))
    name, text = type(error).__name__, text_of(error)
    found = Evidence(kind=Kind.START, attempt=attempt, rank=session.rank, error=name, message=text)
    write_evidence(session.folder, found, {}, {})
