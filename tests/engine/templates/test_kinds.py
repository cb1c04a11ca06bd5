"""What each kind of template imports."""

from __future__ import annotations

import pytest

from engine.spec import catalog
from engine.templates.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_has_imported_every_strategy(kind: str) -> None:
    used = {type(strategy).__module__ for strategy in catalog.strategies()}
    assert used <= set(KINDS[kind].modules)
