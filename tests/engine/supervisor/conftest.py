"""Runs whose workers follow a script, for the tests of the supervisor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.support.scripted_run import ScriptedRun

MakeRun = Callable[..., ScriptedRun]


@pytest.fixture
def make_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeRun]:
    """Makes a run of `torch/single` on a CPU with 30 steps, or as the arguments say."""
    with ExitStack() as made:

        def make(*arguments: Any, **changes: Any) -> ScriptedRun:
            return made.enter_context(closing(ScriptedRun(monkeypatch, *arguments, **changes)))

        yield make
