"""What the command `cluster` says of the machines."""

from __future__ import annotations

import pytest

from engine.cli.commands import cluster as command
from engine.cli.commands.cluster import ClusterOptions, cluster
from engine.cli.output import Refused, Unanswered
from engine.cluster import membership
from engine.cluster.member import Member
from engine.cluster.membership import Cluster
from engine.cluster.versions import Versions
from tests.support.sentences import sentence

HERE = Member(
    name="desk", ip="10.0.0.1", alive=True, is_here=True, versions=Versions(torch="2.13.0+cpu")
)


def other(**changes: object) -> Member:
    values = {"versions": HERE.versions, **changes}
    return Member(name="gpus", ip="10.0.0.2", alive=not changes.get("problem"), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (other(), []),
        (other(clock_offset=1.5), []),
        (other(problem="gpus was lost."), ["gpus was lost."]),
        (
            other(versions=Versions(torch="2.13.0+cu130")),
            [sentence("pytorch-is-here", machine="gpus")],
        ),
    ],
)
def test_what_differs_is_said(member: Member, said: list[str]) -> None:
    assert command.notes_on([HERE, member]) == said


@pytest.mark.parametrize(("offset", "where"), [(61.0, "61.0 s ahead of"), (-5.04, "5.0 s behind")])
def test_a_clock_that_differs_is_said_with_its_sign(offset: float, where: str) -> None:
    (text,) = command.notes_on([HERE, other(clock_offset=offset)])
    assert sentence("clock-of-gpus-is-clock", where=where) in text


def test_a_machine_in_no_cluster_is_told_how_to_begin_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "require_ray", lambda: None)
    with pytest.raises(Refused, match="cluster start"):
        cluster("status", ClusterOptions())


def test_without_ray_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "ray_version", lambda: "")
    for action in ("start", "join", "status", "stop"):
        with pytest.raises(Refused, match=r"pip install -e '\.\[cluster\]'"):
            cluster(action, ClusterOptions(token="-", address="10.0.0.1:6379"))


def test_a_node_that_does_not_run_is_said_and_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "require_ray", lambda: None)
    membership.save(Cluster(head="10.0.0.1:6379", name="gpus", ip="10.0.0.2"), "0" * 32)
    with pytest.raises(Unanswered, match="does not run"):
        cluster("status", ClusterOptions())


def test_leave_mends_a_damaged_membership() -> None:
    membership.save(Cluster(head="10.0.0.1:6379", name="gpus", ip="10.0.0.2"), "0" * 32)
    (membership.token_file().parent / membership.FILE_NAME).write_text("[")
    assert cluster("leave", ClusterOptions()) == 0
    assert membership.cluster() is None
