"""Which failures of a short run say that there was no memory left."""

import pytest

from engine.messages.events import Failure
from engine.planning.short_run import is_out_of_memory


def failure(message: str, signal: str = "", log_tail: str = "", details: str = "") -> Failure:
    return Failure(0, "cpu:0", 1, signal, message, "", log_tail, details)


@pytest.mark.parametrize(
    "message",
    [
        "rank 0 failed: cpu:0 is out of memory: 1.25 GiB were asked for. Each replica …",
        "rank 1 failed: RuntimeError: CUDA error: out of memory",
        "rank 0 failed: RuntimeError: [enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: "
        "can't allocate memory: you tried to allocate 4 bytes.",
        "rank 0 failed: ResourceExhaustedError: OOM when allocating tensor with shape[8,9]",
        "rank 0 failed: _ArrayMemoryError: Unable to allocate 7 GiB for an array",
        "rank 0 failed: MemoryError",
        "rank 0 failed: RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_errors_of_frameworks_and_libraries_are_recognised(message: str) -> None:
    assert is_out_of_memory(failure(message))


def test_a_process_that_was_killed_had_no_memory_only_if_memory_was_scarce() -> None:
    hint = "(killed from outside; when memory runs out or a limit of CPU time is reached, …)"
    killed = failure(f"rank 0 was ended by SIGKILL {hint}", "SIGKILL", "out of memory")
    assert is_out_of_memory(killed, was_scarce=True)
    assert not is_out_of_memory(killed)
    assert not is_out_of_memory(killed, is_limited=True)


def test_native_code_that_aborts_says_why_in_its_log() -> None:
    log = "terminate called after throwing an instance of 'std::bad_alloc'"
    assert is_out_of_memory(failure("rank 0 was ended by SIGABRT", "SIGABRT", log))
    assert not is_out_of_memory(failure("rank 0 was ended by SIGABRT", "SIGABRT", "assertion"))


def test_a_cause_counts() -> None:
    assert is_out_of_memory(failure("RuntimeError: no batch", details="Caused by MemoryError"))


def test_a_crash_counts_only_where_memory_is_limited() -> None:
    crash = failure("rank 0 was ended by SIGSEGV", "SIGSEGV")
    assert is_out_of_memory(crash, is_limited=True)
    assert not is_out_of_memory(crash)


def test_other_failures_are_none() -> None:
    assert not is_out_of_memory(failure("rank 0 failed: KeyError: 'x'", log_tail="out of memory"))
    assert not is_out_of_memory(failure("rank 0 was ended by SIGSEGV", "SIGSEGV"))
