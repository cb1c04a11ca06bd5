"""A wait that may never end, given up in time."""

from __future__ import annotations

import threading

import pytest

from engine.tf.parallelism.wait_limit import WaitLimit


def test_it_waits_as_long_as_it_takes_within_its_time() -> None:
    limit = WaitLimit()
    assert limit.returns_within(60, lambda: None)
    assert limit.returns_within(60, lambda: None)


def test_it_gives_up_what_never_ends() -> None:
    never = threading.Event()
    try:
        assert not WaitLimit().returns_within(0.05, never.wait)
    finally:
        never.set()


@pytest.mark.parametrize("error", [ValueError, TimeoutError])
def test_it_passes_on_what_went_wrong(error: type[Exception]) -> None:
    def fail() -> None:
        raise error("in the wait itself")

    with pytest.raises(error, match="in the wait itself"):
        WaitLimit().returns_within(60, fail)
