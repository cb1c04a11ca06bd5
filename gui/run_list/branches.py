"""Runs as a tree: those that go on from a step of another one stand below it; no widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.runs.run_info import RunInfo


def as_tree(infos: Sequence[RunInfo]) -> tuple[list[RunInfo], dict[str, int]]:
    """Return the runs, which are sorted newest first, with branches below their parents; and how
    deep each branch is. The tree with the newest run comes first."""
    listed = {info.id: info for info in infos}
    if not any(info.origin.parent in listed for info in infos):
        return list(infos), {}
    branches = branches_of(infos)
    found: list[RunInfo] = []
    depths: dict[str, int] = {}
    for info in infos:
        waiting = [(_root(info, listed), 0)]
        while waiting:
            run, depth = waiting.pop()
            if run.id in depths:
                continue
            depths[run.id] = depth
            found.append(run)
            waiting += [(each, depth + 1) for each in reversed(branches.get(run.id, ()))]
    return found, {run_id: depth for run_id, depth in depths.items() if depth}


def branches_of(infos: Sequence[RunInfo]) -> dict[str, list[RunInfo]]:
    """Return the runs that go on from each run, by its id, in the order of `infos`."""
    found: dict[str, list[RunInfo]] = {}
    for info in infos:
        if info.origin.parent:
            found.setdefault(info.origin.parent, []).append(info)
    return found


def _root(info: RunInfo, listed: Mapping[str, RunInfo]) -> RunInfo:
    """Return the listed run in which the branch of `info` begins; files may name a circle."""
    seen = {info.id}
    while (parent := listed.get(info.origin.parent)) is not None and parent.id not in seen:
        info = parent
        seen.add(info.id)
    return info
