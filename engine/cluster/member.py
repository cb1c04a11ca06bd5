"""A machine of the cluster, and what it is asked: a Ray task on each tells what it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from engine.cluster.machine_facts import (
    HeadAnswer,
    MachineFacts,
    answer_facts,
    answer_new_node,
    answer_time,
)
from engine.cluster.versions import Versions
from engine.telemetry.given_gpus import GivenGpus
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

NAMESPACE = "traindeck"
"""Of names in Ray."""

LABEL = "traindeck-machine"
"""The label of a Ray node with the name of its machine."""

MEMBER = "traindeck-member"
"""The label with the random number of the machine's membership."""

BEGUN = "traindeck-begun"
"""The label with the time at which the Ray node began, in milliseconds by its own clock."""

LARGEST_CLOCK_OFFSET = 2.0
"""Seconds; more is told to the user, because times in logs and events would not fit."""

HAS_LEFT = 1
"""Ray's number for a node that was ended on purpose."""

_HEAD = "node:__internal_head__"
"""The resource that only Ray's head has."""

_LOOK_SECONDS = 1.0
_CLOCK_QUESTIONS = 3


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of the cluster."""

    name: str
    ip: str
    alive: bool
    """Whether the head hears of it now."""

    is_here: bool = False
    is_head: bool = False
    problem: str = ""
    """Why its facts are missing, in a sentence; empty: it has told them."""

    versions: Versions = Versions()
    snapshot: Snapshot | None = None
    given: GivenGpus = GivenGpus(())
    """The GPUs that a run can use there."""

    clock_offset: float | None = None
    """Seconds by which its clock is ahead of the clock of this machine; None: not measured."""

    @property
    def devices(self) -> tuple[DeviceSnapshot, ...]:
        """Its devices; empty if it has not told them."""
        return self.snapshot.devices if self.snapshot else ()


def ask_members(own_name: str, timeout: float) -> list[Member]:
    """Return all machines, by name; `own_name`: that of this one. This process is a Ray driver.

    See `membership.members`. Raises Ray's errors.
    """
    import ray

    deadline = time.monotonic() + timeout
    told: dict[str, MachineFacts | str] = {}
    asked = {_task(answer_facts, node).remote(): name for name, node in living_nodes().items()}
    while asked and time.monotonic() < deadline:
        answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_LOOK_SECONDS)
        told |= {asked.pop(ref): _answer(ref) for ref in answered}
        living = living_nodes()  # Ray does not end a task on a machine that was just lost
        asked = {ref: name for ref, name in asked.items() if name in living}
    for ref, name in asked.items():
        ray.cancel(ref, force=True)
        told[name] = "It has not answered in time."
    return [
        _member(node, name == own_name, told.get(name, "It has just joined."), deadline)
        for name, node in sorted(newest_nodes().items())
        if node["Alive"] or node["DeathReason"] != HAS_LEFT
    ]


def other_node(name: str, member: str) -> str:
    """Return the address of a machine that has this name, and is not `member`; empty: none.

    This process is a Ray driver.
    """
    import ray

    for node in ray.nodes():
        labels = node["Labels"]
        if node["Alive"] and labels.get(LABEL) == name and labels.get(MEMBER) != member:
            return str(node["NodeManagerAddress"])
    return ""


def ask_head(begun: str, timeout: float) -> HeadAnswer:
    """Ask the head about the Ray node here that has the label `begun`. This process is a driver.

    Raises Ray's errors, and StopIteration if Ray knows no such node.
    """
    import ray

    nodes = ray.nodes()
    head = next(each for each in nodes if each["Alive"] and _HEAD in each["Resources"])
    own = next(each for each in nodes if each["Labels"].get(BEGUN) == begun)
    task = _task(answer_new_node, head)
    ref = task.remote(own["NodeManagerAddress"], own["NodeManagerPort"])
    answer = msgspec.json.decode(ray.get(ref, timeout=timeout), type=HeadAnswer)
    return msgspec.structs.replace(answer, name=head["Labels"][LABEL])


def clock_note(name: str, offset: float) -> str:
    """Say that the clock of a machine is `offset` seconds ahead; empty: that does not matter."""
    if abs(offset) <= LARGEST_CLOCK_OFFSET:
        return ""
    where = "ahead of" if offset > 0 else "behind"
    return (
        f"The clock of {name} is {abs(offset):.1f} s {where} the clock of this machine: times in "
        "events and logs do not fit. Let both follow one time server."
    )


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's text, for a clause."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".:")[:200]


def newest_nodes() -> dict[str, Mapping[str, Any]]:
    """Return what Ray says of each machine, by name, also of those that have left.

    Ray lists all nodes that there were: the living one counts, and else the newest.
    """
    import ray

    nodes = sorted(ray.nodes(), key=lambda node: (node["Alive"], _begun(node)))
    return {node["Labels"][LABEL]: node for node in nodes if LABEL in node["Labels"]}


def living_nodes() -> dict[str, Mapping[str, Any]]:
    """Return what Ray says of each machine that the head hears of, by name."""
    return {name: node for name, node in newest_nodes().items() if node["Alive"]}


def placed_on(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a Ray task or actor that runs on this node, or nowhere."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    affinity = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return {"num_cpus": 0, "scheduling_strategy": affinity}


def _begun(node: Mapping[str, Any]) -> int:
    return int(node["Labels"].get(BEGUN, 0))


def _member(
    node: Mapping[str, Any], is_here: bool, told: MachineFacts | str, deadline: float
) -> Member:
    name = node["Labels"][LABEL]
    bare = Member(
        name=name,
        ip=str(node["NodeManagerAddress"]),
        alive=bool(node["Alive"]),
        is_here=is_here,
        is_head=_HEAD in node["Resources"],
    )
    if not bare.alive:
        return msgspec.structs.replace(bare, problem=f"{name} was lost.")
    if isinstance(told, str):
        return msgspec.structs.replace(bare, problem=told)
    return msgspec.structs.replace(
        bare,
        versions=told.versions,
        snapshot=told.snapshot,
        given=told.given,
        clock_offset=_clock_offset(node, deadline),
    )


def _task(function: Any, node: Mapping[str, Any]) -> Any:
    """Return `function` as a Ray task that runs on this node."""
    import ray

    return ray.remote(function).options(max_retries=0, **placed_on(node))


def _answer(ref: Any) -> MachineFacts | str:
    """Return what a machine has told, or why it could not, as a sentence."""
    import ray

    try:
        return msgspec.json.decode(ray.get(ref), type=MachineFacts)
    except (ray.exceptions.RayError, ValueError) as error:
        return f"It could not tell its facts: {first_line(error)}."


def _clock_offset(node: Mapping[str, Any], deadline: float) -> float | None:
    """Return how far the clock of a machine is ahead; the quickest of several answers counts."""
    import ray

    task = _task(answer_time, node)
    measured = []
    for _ in range(_CLOCK_QUESTIONS):
        asked = time.time()
        begun = time.monotonic()
        try:
            there = float(ray.get(task.remote(), timeout=max(0.0, deadline - begun)))
        except ray.exceptions.RayError:
            break
        took = time.monotonic() - begun
        measured.append((took, there - (asked + took / 2)))
    return min(measured)[1] if measured else None
