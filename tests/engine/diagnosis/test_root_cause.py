"""Which rank is the root cause of a failure, and in which sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.diagnosis.root_cause import TAIL_BYTES, TAIL_LINES, find_failure, tail
from engine.messages.events import Failure, WorkerFailed
from engine.processes.process import ORPHANED, UNKNOWN_EXIT
from engine.spec.strategy import one_process, one_process_per_device
from tests.support.sentences import sentence

PLANS = one_process_per_device(("cpu:0", "cpu:1", "cpu:2"))


def test_the_details_of_the_root_cause_are_kept(tmp_path: Path) -> None:
    said = WorkerFailed(1, "ValueError: no", "recipe.py:3", "", False, "Parameters: 2 3")
    logs = {1: tmp_path / "rank1.log"}
    assert find_failure({1: 1}, {1: said}, PLANS, logs).details == "Parameters: 2 3"
    assert find_failure({1: -11}, {1: said}, PLANS, logs).details == ""


def test_a_report_tells_the_exit_that_the_system_has_not_told_yet(tmp_path: Path) -> None:
    said = WorkerFailed(1, "it ended", "", "", False, exit_code=7)
    crashed = WorkerFailed(2, "it crashed", "", "", False, exit_code=-11)
    logs = {rank: tmp_path / f"rank{rank}.log" for rank in (1, 2)}
    assert find_failure({}, {1: said}, PLANS, logs).exit_code == 7
    failure = find_failure({1: 7}, {1: said, 2: crashed}, PLANS, logs)
    assert (failure.rank, failure.exit_code, failure.signal) == (2, -11, "SIGSEGV")


def report(rank: int, *, lost_peer: bool = False, traceback: str = "") -> WorkerFailed:
    return WorkerFailed(rank, f"ValueError: {rank}", "recipe.py:3", traceback, lost_peer)


@pytest.fixture
def logs(tmp_path: Path) -> dict[int, Path]:
    found = {plan.rank: tmp_path / f"rank{plan.rank}.log" for plan in PLANS}
    for rank, log in found.items():
        log.write_text(f"rank {rank} was here\n")
    return found


def find(
    logs: dict[int, Path], exits: dict[int, int], reports: tuple[WorkerFailed, ...] = ()
) -> Failure:
    return find_failure(exits, {report.rank: report for report in reports}, PLANS, logs)


@pytest.mark.parametrize(
    ("exits", "reports", "rank"),
    [
        ({2: 1, 0: 1, 1: 1}, (report(2), report(0), report(1)), 2),
        ({0: 1, 1: 1}, (report(0, lost_peer=True), report(1)), 1),
        ({0: 1, 1: -9}, (report(0),), 1),
        ({0: 77, 1: -11, 2: -9}, (), 1),
        ({0: 1, 1: 1}, (report(1),), 1),
        ({0: 1, 1: 3}, (report(0, lost_peer=True),), 1),
        ({0: 1, 2: 1}, (report(0, lost_peer=True), report(2, lost_peer=True)), 1),
        ({2: 1}, tuple(report(rank, lost_peer=True) for rank in (2, 0, 1)), 2),
        ({}, (report(1),), 1),
    ],
    ids=[
        "the first exception",
        "an exception before a lost peer",
        "a signal before an exception",
        "the first signal",
        "an exception before a bad exit",
        "a bad exit before a lost peer",
        "a silent rank before a lost peer",
        "the first lost peer",
        "an exception whose process has not ended yet",
    ],
)
def test_which_rank_is_the_root_cause(
    exits: dict[int, int], reports: tuple[WorkerFailed, ...], rank: int, logs: dict[int, Path]
) -> None:
    failure = find(logs, exits, reports)
    assert failure.rank == rank
    assert failure.device == f"cpu:{rank}"
    assert failure.log_tail == f"rank {rank} was here"


def test_an_exception_is_shown_with_the_message_of_its_worker(logs: dict[int, Path]) -> None:
    failure = find(logs, {1: 1}, (report(1),))
    assert failure.message == "Rank 1 on cpu:1 failed: ValueError: 1"
    assert failure.where == "recipe.py:3"
    assert (failure.exit_code, failure.signal) == (1, "")


@pytest.mark.parametrize(
    ("code", "signal", "phrase"),
    [
        (-9, "SIGKILL", sentence("was-ended-by-sigkill-killed")),
        (-11, "SIGSEGV", sentence("was-ended-by-sigsegv-crash")),
        (-15, "SIGTERM", "was ended by SIGTERM."),
        (UNKNOWN_EXIT, "", sentence("ended-system-does-not-tell-why")),
        (ORPHANED, "", sentence("lost-connection-to-supervisor-which-lives")),
        (5, "", sentence("ended-with-exit-code-before-training", code=5)),
        (0, "", sentence("ended-with-exit-code-before-training", code=0)),
    ],
)
def test_an_exit_without_a_report_is_explained_by_its_code(
    code: int, signal: str, phrase: str, logs: dict[int, Path]
) -> None:
    failure = find(logs, {0: code})
    assert f"Rank 0 on cpu:0 {phrase}" in failure.message
    assert (failure.exit_code, failure.signal) == (code, signal)


def test_after_a_failed_kernel_the_abort_is_not_the_cause(logs: dict[int, Path]) -> None:
    """NCCL ends the process once a kernel has failed."""
    said = WorkerFailed(1, "A kernel failed.", "r.py:3", "", False, kernel_fault=True)
    failure = find(logs, {1: -6, 0: 1}, (report(0, lost_peer=True), said))
    assert (failure.rank, failure.where, failure.signal) == (1, "r.py:3", "")
    assert failure.message == sentence("rank-failed-kernel-failed")


def test_a_worker_with_several_devices_names_them_all(logs: dict[int, Path]) -> None:
    failure = find_failure({0: -9}, {}, one_process(("cpu:0", "cpu:1")), logs)
    assert failure.device == "cpu:0, cpu:1"


def test_workers_that_exit_without_an_error_have_no_rank_to_blame(logs: dict[int, Path]) -> None:
    failure = find(logs, {})
    assert failure.rank == -1
    assert failure.message == sentence("workers-exited-without-finishing-training")


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(str(number) for number in range(10_000)) + "\n\n")
    assert tail(log).splitlines() == [str(n) for n in range(10_000 - TAIL_LINES, 10_000)]


def test_a_log_of_one_endless_line_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xc3" * (3 * TAIL_BYTES))
    assert 0 < len(tail(log)) <= TAIL_BYTES


def test_a_missing_log_has_no_tail(tmp_path: Path) -> None:
    assert tail(tmp_path / "log") == ""


def test_the_traceback_is_left_out_of_the_log_tail(
    logs: dict[int, Path],
) -> None:
    traceback = "Traceback:\n" + "".join(f"  frame {n}\n" for n in range(50)) + "ValueError: 0\n"
    logs[0].write_text("printed by the recipe\n" + traceback)
    assert find(logs, {0: 1}, (report(0, traceback=traceback),)).log_tail == (
        "printed by the recipe"
    )
