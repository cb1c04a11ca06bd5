"""Waiting, for a limited time, for a call that may never return."""

from __future__ import annotations

import threading

import pytest

from engine.tf.parallelism.wait_limit import WaitLimit


def test_a_call_that_returns_in_time() -> None:
    limit = WaitLimit()
    assert limit.returns_within(60, lambda: None)
    assert limit.returns_within(60, lambda: None)


def test_a_call_that_never_returns() -> None:
    never = threading.Event()
    try:
        assert not WaitLimit().returns_within(0.05, never.wait)
    finally:
        never.set()


@pytest.mark.parametrize("error", [ValueError, TimeoutError])
def test_a_call_that_fails(error: type[Exception]) -> None:
    def fail() -> None:
        raise error("in the wait itself")

    with pytest.raises(error, match="in the wait itself"):
        WaitLimit().returns_within(60, fail)
