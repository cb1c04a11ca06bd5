"""Which checkpoints are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.runs.checkpoints.checkpoint_files import CheckpointInfo, Manifest, Position
from engine.training.checkpoints.retention import kind_changes


def saved(*kinds: tuple[str, ...]) -> list[CheckpointInfo]:
    """Checkpoints of these kinds, at steps 1, 2, ..."""
    return [
        CheckpointInfo(
            Path(str(step)),
            Manifest(
                position=Position(step=step),
                strategy="s",
                replicas=1,
                saved=1.0,
                files={},
                kinds=each,
            ),
        )
        for step, each in enumerate(kinds, 1)
    ]


@pytest.mark.parametrize(
    ("kinds", "left"),
    [
        ([("steps",), ("minutes",), ("epochs",)], {1: set()}),
        ([("steps",), ("request",), ("last",), ("epochs",), ("epochs",)], {1: set()}),
        ([("steps", "request"), ("steps", "last"), ("steps",), ("steps",)], {}),
        ([("best",), ("best",)], {1: set()}),
        ([("best", "request"), ("best", "steps"), ("best",)], {1: {"request"}, 2: {"steps"}}),
        ([("steps", "best"), ("steps",), ("steps",)], {}),
        ([("steps", "best"), ("best",), ("steps",), ("steps",)], {1: set()}),
        ([(), ("steps",), ("steps",)], {}),
        ([], {}),
    ],
)
def test_what_changes_when_two_automatic_ones_are_kept(
    kinds: list[tuple[str, ...]], left: dict[int, set[str]]
) -> None:
    found = {
        info.manifest.position.step: set(kept) for info, kept in kind_changes(saved(*kinds), 2)
    }
    assert found == left


def test_the_newest_always_stays() -> None:
    for kinds in (("steps",), ("best",), ("minutes", "epochs", "best")):
        infos = saved(*[kinds] * 5)
        assert infos[-1] not in [info for info, _ in kind_changes(infos, 1)]
