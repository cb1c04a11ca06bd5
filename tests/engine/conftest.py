"""A store and its reader, for the tests of what writes and reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as opened:
        yield opened


@pytest.fixture
def reader(store: RunStore, tmp_path: Path) -> Iterator[RunReader]:
    with RunReader(tmp_path) as opened:
        yield opened
