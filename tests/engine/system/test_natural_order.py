"""Names are sorted as people count."""

from __future__ import annotations

from engine.system.natural_order import natural_key


def test_numbers_in_names_count() -> None:
    names = ["b", "layer10/w", "layer2/w", "layer2", "2", "10", "layer", "layer02x", "9" * 5000]
    assert sorted(names, key=natural_key) == [
        *("2", "10", "9" * 5000, "b", "layer"),
        *("layer2", "layer2/w", "layer02x", "layer10/w"),
    ]
