"""The sum of how long work takes."""

from __future__ import annotations

import time

import pytest
import torch

from engine.pytorch.stopwatch import Stopwatch


def test_times_are_summed_until_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 10.5, 20.0, 20.25])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    stopwatch = Stopwatch(torch.device("cpu"))
    for _ in range(2):
        with stopwatch.measuring():
            pass
    assert stopwatch.read_and_reset() == 0.75
    assert stopwatch.read_and_reset() == 0.0
