"""Which GPUs are suggested, by their links."""

from __future__ import annotations

import time
from itertools import combinations

import pytest

from engine.telemetry.gpu_topology import KINDS, best_set, link_kinds
from engine.telemetry.snapshot import Link, LinkKind


def links(**kinds: LinkKind) -> list[Link]:
    """`ab="NVLink"`: GPU a and GPU b."""
    return [Link(pair[0], pair[1], kind) for pair, kind in kinds.items()]


def test_the_pair_with_the_better_link_is_chosen_in_either_order() -> None:
    found = links(ab="system", ca="NVLink", bc="PCIe switch")
    assert best_set(found, "abc", 2) == ("a", "c")
    assert link_kinds(found)[frozenset("ac")] == "NVLink"


def test_the_worst_link_decides_because_all_wait_for_it() -> None:
    # a has two NVLinks, but b and c only meet over the sockets.
    found = links(ab="NVLink", ac="NVLink", bc="system")
    found += links(de="host bridge", df="host bridge", ef="host bridge")
    assert best_set(found, "abcdef", 3) == ("d", "e", "f")


def test_what_is_not_known_is_no_good_link() -> None:
    found = links(ab="unknown", cd="system")
    assert best_set(found, "abcd", 2) == ("c", "d")
    assert best_set([], "abc", 2) == ("a", "b")


@pytest.mark.parametrize(
    ("candidates", "count", "chosen"),
    [("", 2, ""), ("ab", 0, ""), ("ab", -1, ""), ("a", 1, "a"), ("ab", 5, "ab"), ("aba", 3, "ab")],
)
def test_odd_wishes_are_met_as_far_as_can_be(candidates: str, count: int, chosen: str) -> None:
    assert best_set([], candidates, count) == tuple(chosen)


def test_links_to_others_do_not_matter() -> None:
    assert best_set(links(ax="NVLink", bc="NUMA node"), "abc", 2) == ("b", "c")


@pytest.mark.parametrize("gpus", [16, 40])
def test_many_gpus_are_no_reason_to_wait(gpus: int) -> None:
    names = [f"GPU-{number:02}" for number in range(gpus)]
    # Islands of eight, every second GPU on the same one.
    found = [
        Link(a, b, "NVLink" if (int(a[4:]) - int(b[4:])) % (gpus // 8) == 0 else "system")
        for a, b in combinations(names, 2)
    ]
    begin = time.thread_time()
    chosen = best_set(found, names, 8)
    assert time.thread_time() - begin < 2.0
    kinds = link_kinds(found)
    assert {kinds[frozenset(pair)] for pair in combinations(chosen, 2)} == {KINDS[0]}
    assert chosen == tuple(sorted(chosen))
