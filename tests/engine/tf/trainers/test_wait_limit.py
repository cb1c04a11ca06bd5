"""A wait that may never end, given up in time."""

from __future__ import annotations

import threading

import pytest

from engine.tf.trainers.wait_limit import Patience


def test_it_waits_as_long_as_it_takes_within_its_time() -> None:
    patience = Patience()
    assert patience.ends(lambda: None, 60)
    assert patience.ends(lambda: None, 60)


def test_it_gives_up_what_never_ends() -> None:
    never = threading.Event()
    try:
        assert not Patience().ends(never.wait, 0.05)
    finally:
        never.set()


@pytest.mark.parametrize("error", [ValueError, TimeoutError])
def test_it_passes_on_what_went_wrong(error: type[Exception]) -> None:
    def fail() -> None:
        raise error("in the wait itself")

    with pytest.raises(error, match="in the wait itself"):
        Patience().ends(fail, 60)
