"""Which GPUs work best together, by the links between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import get_args

from engine.telemetry.snapshot import Link, LinkKind

MOST_SETS = 20_000
"""So many sets are compared one by one, in a fraction of a second; more are searched greedily."""

KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
"""Best first. An unknown link comes last: nobody should be sent there on a guess."""

Pair = frozenset[str]


def link_kinds(links: Sequence[Link]) -> dict[Pair, LinkKind]:
    """The kind of link by pair of UUIDs; a pair that is not in it is unknown."""
    return {frozenset((link.first, link.second)): link.kind for link in links}


def best_set(links: Sequence[Link], candidates: Sequence[str], count: int) -> tuple[str, ...]:
    """The `count` of `candidates` (UUIDs) that are linked best, in the order of the candidates.

    The worst link decides, because all wait for it; then the sum of all; then the order. With fewer
    candidates than `count`, all of them; with a count below 1, none.
    """
    candidates = list(dict.fromkeys(candidates))
    count = min(count, len(candidates))
    if count < 1:
        return ()
    ranks = {pair: KINDS.index(kind) for pair, kind in link_kinds(links).items()}
    if math.comb(len(candidates), count) <= MOST_SETS:
        return min(combinations(candidates, count), key=lambda chosen: _cost(ranks, chosen))
    grown = [_grow(ranks, candidates, seed, count) for seed in candidates]
    best = min(grown, key=lambda chosen: _cost(ranks, chosen))
    return tuple(sorted(best, key=candidates.index))


def _grow(
    ranks: Mapping[Pair, int], candidates: Sequence[str], seed: str, count: int
) -> tuple[str, ...]:
    """Beginning with `seed`, always add whoever is linked best to those that are in already."""
    chosen: tuple[str, ...] = (seed,)
    while len(chosen) < count:
        rest = [each for each in candidates if each not in chosen]
        chosen = min(((*chosen, each) for each in rest), key=lambda grown: _cost(ranks, grown))
    return chosen


def _cost(ranks: Mapping[Pair, int], chosen: Sequence[str]) -> tuple[int, int]:
    """The rank of the worst link within `chosen`, and the sum of all: less is better."""
    unknown = len(KINDS) - 1
    found = [ranks.get(frozenset(pair), unknown) for pair in combinations(chosen, 2)]
    return max(found, default=0), sum(found)
