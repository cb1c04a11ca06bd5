"""A short run that went well, and what a test changes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine.planning.short_run import ShortRun
from engine.spec.run_spec import RunSpec

Make = Callable[..., ShortRun]


@pytest.fixture
def made() -> Make:
    """Makes a short run on two CPU ranks; `spec` takes changes of its settings."""

    def make(spec: dict[str, Any] | None = None, **changes: Any) -> ShortRun:
        settings: dict[str, Any] = {
            "recipe": "digits",
            "strategy": "torch/ddp",
            "devices": ("cpu:0", "cpu:1"),
            "batch_size": 64,
        } | (spec or {})
        shares = {"compute": 0.8, "communication": 0.15, "data": 0.05}
        run = ShortRun(
            spec=RunSpec(**settings),
            steps=40,
            losses=(2.0, 1.5),
            samples_per_second=640.0,
            step_seconds=0.1,
            shares=shares,
            rank_shares={0: shares, 1: shares},
            first_step_seconds=3.0,
            parameters=1_000_000,
            steps_per_epoch=100,
            steps_in_all=1000,
            replicas=2,
        )
        return msgspec.structs.replace(run, **changes)

    return make
