"""Which of the Ray nodes that there were stands for a machine."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cluster import member

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[cluster]'")


def node(name: str, begun: int, *, alive: bool = False, reason: int = 2, of: str = "a") -> Any:
    labels = {member.LABEL: name, member.BEGUN: str(begun), member.MEMBER: of}
    return {
        "Alive": alive,
        "DeathReason": 0 if alive else reason,
        "Labels": labels,
        "NodeManagerAddress": f"10.0.0.{begun}",
        "Resources": {},
    }


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([node("gpus", 1), node("gpus", 2, alive=True)], {"gpus": True}),
        ([node("gpus", 1, alive=True), node("gpus", 2)], {"gpus": True}),
        ([node("gpus", 2), node("gpus", 1, alive=True, of="b")], {"gpus": True}),
        ([node("gpus", 2), node("gpus", 1)], {"gpus": False}),
        ([{"Alive": True, "DeathReason": 0, "Labels": {}}], {}),
    ],
)
def test_the_living_or_newest_node_stands_for_its_machine(
    nodes: list[Any], found: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert {name: each["Alive"] for name, each in member.newest_nodes().items()} == found


def test_who_has_left_since_its_loss_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    left = node("gpus", 2, reason=member.HAS_LEFT)
    lost = [node("desk", 1, reason=member.HAS_LEFT), node("desk", 2)]
    monkeypatch.setattr(ray, "nodes", lambda: [left, node("gpus", 1), *lost])
    assert [each.name for each in member.ask_members("here", 1.0)] == ["desk"]


def test_a_name_is_free_for_the_member_that_has_it_and_after_its_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [node("gpus", 1, alive=True), node("lost", 2)])
    assert member.other_node("gpus", "b") == "10.0.0.1"
    assert member.other_node("gpus", "a") == member.other_node("lost", "b") == ""
