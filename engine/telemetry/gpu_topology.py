"""Chooses the GPUs with the best links between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import get_args

from engine.telemetry.snapshot import Link, LinkKind

MOST_SETS = 20_000
"""The most sets that are all compared, in a fraction of a second; else the search is greedy."""

KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
"""The kinds of links, best first; `unknown` is last."""

Pair = frozenset[str]


def link_kinds(links: Sequence[Link]) -> dict[Pair, LinkKind]:
    """Return the kind of link by pair of UUIDs; a missing pair is unknown."""
    return {frozenset((link.first, link.second)): link.kind for link in links}


def best_set(links: Sequence[Link], candidates: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the `count` of `candidates` (UUIDs) with the best links, in their order.

    The worst link decides, because an all-reduce waits for it, then the sum of all links, then the
    order. If `count` is larger than the number of candidates, return all; if below 1, none.
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
    """Start with `seed` and add, one by one, the GPU with the best links to the chosen GPUs."""
    chosen: tuple[str, ...] = (seed,)
    while len(chosen) < count:
        rest = [each for each in candidates if each not in chosen]
        chosen = min(((*chosen, each) for each in rest), key=lambda grown: _cost(ranks, grown))
    return chosen


def _cost(ranks: Mapping[Pair, int], chosen: Sequence[str]) -> tuple[int, int]:
    """Return the rank of the worst link within `chosen` and the sum of all; lower is better."""
    unknown = len(KINDS) - 1
    found = [ranks.get(frozenset(pair), unknown) for pair in combinations(chosen, 2)]
    return max(found, default=0), sum(found)
