"""What is injected into scripts is imported here by its own name, from its own root."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.script_listener import IN_SCRIPT

if str(IN_SCRIPT) not in sys.path:
    sys.path.append(str(IN_SCRIPT))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="td-") as folder:
        yield Path(folder)
