"""How a global batch is shared in smaller parts, and what is said about it."""

from __future__ import annotations

import pytest

from engine.training.shrinking import Sharing, Shortage, exhausted, shrunk
from tests.support.sentences import sentence

SHORTAGE = Shortage(1, 37, "backward", "tried to allocate 1.20 GiB on GPU 1")


@pytest.mark.parametrize(
    ("batch_size", "replicas", "accumulation", "expected"),
    [
        (128, 2, 1, [(2, 32), (4, 16), (8, 8), (16, 4), (32, 2), (64, 1)]),
        (7, 2, 1, [(2, 2), (4, 1)]),
        (7, 1, 3, [(6, 2), (7, 1)]),
        (6, 1, 1, [(2, 3), (4, 2), (6, 1)]),
        (5, 8, 1, []),
        (8, 2, 4, []),
    ],
)
def test_parts_become_smaller_down_to_one_sample(
    batch_size: int, replicas: int, accumulation: int, expected: list[tuple[int, int]]
) -> None:
    sharing: Sharing | None = Sharing(batch_size, replicas, accumulation, accumulation)
    found = []
    while sharing := sharing.halved():
        found.append((sharing.accumulation, sharing.samples))
    assert found == expected


def test_the_event_says_who_where_and_how_all_go_on() -> None:
    before = Sharing(128, 2, 1, 1)
    after = Sharing(128, 2, 1, 2)
    event = shrunk(SHORTAGE, before, after, restarts=False, has_batch_norm=False)
    assert event.text == sentence("ranks-go-on-with-halved-parts")
    again = shrunk(SHORTAGE, after, Sharing(128, 2, 1, 4), restarts=True, has_batch_norm=True)
    assert sentence("go-on-from-newest-checkpoint") in again.text
    assert sentence("with-x-samples-instead-of-x") in again.text
    assert again.text.endswith(sentence("normalizes-over-smaller-parts-so-curve"))


def test_the_last_error_says_what_was_tried() -> None:
    text = str(exhausted(SHORTAGE, Sharing(8, 2, 1, 4)))
    assert text.startswith(sentence("out-of-memory-at-step"))
    assert sentence("parts-have-one-sample-only") in text
    assert "halved" not in str(exhausted(SHORTAGE, Sharing(8, 2, 4, 4)))
