"""How many machines the next attempt waits for."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from engine.cluster.membership import ClusterError
from engine.supervisor.machines import machine_search
from engine.supervisor.machines.machine_search import MachineSearch

SECONDS = 60.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_search, "LOOK_SECONDS", 0.001)


def found(fewest: int, *answers: Collection[str] | ClusterError) -> MachineSearch:
    """The search of a run on this machine, a and b, after these answers of the cluster."""
    waiting = list(answers)

    def ask() -> Collection[str]:
        answer = waiting.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    search = MachineSearch(["a", "b"], fewest, ask)
    search.join(SECONDS)
    assert not waiting
    return search


def test_without_a_number_it_waits_for_all() -> None:
    search = found(0, {"a"}, {"b"}, {"a", "b", "c"})
    assert search.found == ("a", "b")


def test_with_a_number_it_takes_those_that_answer_in_their_order() -> None:
    assert found(2, set(), {"b"}).found == ("b",)
    assert found(1, set()).found == ()
    assert found(2, {"b", "a"}).found == ("a", "b")


def test_a_cluster_that_does_not_answer_has_no_machines() -> None:
    assert found(2, ClusterError("the head is away"), {"a"}).found == ("a",)


def test_it_tells_who_is_missing_and_can_be_ended() -> None:
    search = MachineSearch(["a", "b"], 0, lambda: {"b"})
    while not search.missing:
        assert search.is_alive()
    search.end()
    search.join(SECONDS)
    assert (search.found, search.missing) == (None, ("a",))
