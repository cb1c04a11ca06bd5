"""Own data folders of tests that run nothing need no process that ends their runs."""

from __future__ import annotations

import pytest

from engine.planning import own_data_folder


@pytest.fixture(autouse=True)
def _no_ender(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("processes") is None:
        monkeypatch.setattr(own_data_folder, "_start_ender", lambda home: None)
