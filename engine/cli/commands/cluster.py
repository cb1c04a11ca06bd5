"""`cluster`: several machines that train one run together, with Ray."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from engine.cli.output import Exit, Refused, Unanswered, err, out, print_json
from engine.cluster import lifecycle, membership, node_file
from engine.cluster.address import UnusableAddress, is_loopback
from engine.cluster.member import Member, clock_note
from engine.cluster.membership import Cluster, ClusterError
from engine.cluster.node_file import NodeState
from engine.cluster.versions import differences
from engine.system.program import call

NOT_ENCRYPTED = (
    "Ray does not encrypt its traffic, and the token allows to run any code on these machines: use "
    "a network that you trust, or a VPN."
)
ONLY_HERE = (
    "Only this machine reaches its own 127.0.0.0/8, which is for trials: `--host IP` names an "
    "address that the others reach."
)
FROM_INPUT = "-"
"""The token that stands for the first line of standard input."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The flags of `cluster`; each action has some of them."""

    address: str = ""
    token: str = ""
    name: str = ""
    host: str = ""
    port: int | None = None
    ports: str = ""
    keep: bool = False
    json: bool = False


def cluster(action: str | None, options: ClusterOptions) -> Exit:
    """Carry out an action; None: `status`. Raises Refused, Unanswered, OSError."""
    actions = {"start": _start, "join": _join, "leave": _leave, "stop": _stop, "status": _status}
    try:
        if action != "leave":  # which needs no Ray
            membership.require_ray()
        return actions[action or "status"](options)
    except (ClusterError, UnusableAddress) as error:
        raise Refused(str(error)) from error


def _start(options: ClusterOptions) -> Exit:
    known = membership.cluster()
    if options.keep and known is not None and known.is_head:
        lifecycle.become_node()
    with err().status("Starting Ray …"):
        begun = lifecycle.start(options.name, options.host, options.port, options.ports)
    line = lifecycle.join_line(begun, membership.token())
    if options.json:
        print_json({"name": begun.name, "head": begun.head, "join": line})
    else:
        err().print(
            f"This machine, {begun.name}, is the head of a cluster. Paste this on the others:",
            soft_wrap=True,
        )
        out().print(line, soft_wrap=True)
        err().print(ONLY_HERE if is_loopback(begun.ip) else NOT_ENCRYPTED, soft_wrap=True)
    return _keep(options)


def _join(options: ClusterOptions) -> Exit:
    if options.keep and not options.address:
        if membership.this_cluster().is_head:
            raise Refused(f"This machine is the head: `{call('cluster start --keep')}` keeps it.")
        lifecycle.become_node()
    token = options.token
    if options.address and token in ("", FROM_INPUT):
        if sys.stdin.isatty():
            err().print("The token of the cluster, as its first machine has printed it:")
        token = sys.stdin.readline().strip()
    with err().status("Joining …"):
        joined, told = lifecycle.join(
            options.address, token, options.name, options.host, options.ports
        )
    if options.json:
        print_json({"name": joined.name, "head": joined.head, "ip": joined.ip, "differs": told})
    else:
        out().print(
            f"This machine, {joined.name} ({joined.ip}), belongs to the cluster of {joined.head}.",
            soft_wrap=True,
        )
    _say(told)
    return _keep(options)


def _keep(options: ClusterOptions) -> Exit:
    """Take the Ray node that was started into the foreground, if that is wanted."""
    if options.keep:
        lifecycle.become_node()
    return Exit.DONE


def _leave(options: ClusterOptions) -> Exit:
    left = lifecycle.leave()
    text = f"This machine has left the cluster of {left.head}." if left else "It was in no cluster."
    return _done(options, text)


def _stop(options: ClusterOptions) -> Exit:
    lifecycle.stop()
    return _done(
        options,
        "The cluster has ended. Its other machines wait for it until they leave: "
        f"`{call('cluster leave')}`.",
    )


def _done(options: ClusterOptions, text: str) -> Exit:
    if options.json:
        print_json({"state": "done"})
    else:
        out().print(text, soft_wrap=True)
    return Exit.DONE


def _status(options: ClusterOptions) -> Exit:
    found = membership.this_cluster()
    status = node_file.read()
    members: list[Member] = []
    problem = ""
    if status is not None and status.lives and status.state is NodeState.RUNNING:
        try:
            members = membership.members()
        except ClusterError as error:
            problem = str(error)
    else:
        problem = lifecycle.node_text(status)
    notes = notes_on(members)
    if options.json:
        print_json(
            {
                "name": found.name,
                "head": found.head,
                "is_head": found.is_head,
                "problem": problem,
                "machines": [_as_json(each) for each in members],
                "differs": notes,
            }
        )
    else:
        _print_status(found, members)
        _say(notes)
    if problem:
        raise Unanswered(problem, is_printed=True)
    return Exit.DONE


def _print_status(found: Cluster, members: Iterable[Member]) -> None:
    if members:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("machine", "address", "state", "devices", "Python", "Ray", "PyTorch"):
            table.add_column(column, overflow="fold")
        for column in ("TensorFlow", "Traindeck", "clock"):
            table.add_column(column, overflow="fold")
        for each in members:
            table.add_row(*_cells(each))
        out().print(table)
    if found.is_head:
        line = call("cluster start")
        err().print(f"`{line}` prints the line that adds another machine.", soft_wrap=True)
    else:
        err().print(f"The head is {found.head}; this machine is {found.name}.", soft_wrap=True)


def _cells(member: Member) -> list[str]:
    gpus = [device for device in member.devices if device.kind == "gpu"]
    state = "answers" if member.alive and not member.problem else "silent"
    versions = member.versions
    return [
        member.name + (" (head)" if member.is_head else "") + (" (here)" if member.is_here else ""),
        member.ip,
        state if member.alive else "lost",
        ("CPU" + (f", {len(gpus)} GPUs" if gpus else "")) if member.devices else "–",
        *(
            text or "–"
            for text in (
                versions.python,
                versions.ray,
                versions.torch,
                versions.tensorflow,
                versions.traindeck,
            )
        ),
        "–" if member.clock_offset is None else f"{member.clock_offset:+.2f} s",
    ]


def notes_on(members: Iterable[Member]) -> list[str]:
    """Return what a person should know of the machines, in sentences."""
    here = next((each for each in members if each.is_here), None)
    notes = []
    for each in members:
        if each.problem:
            notes.append(f"{each.name}: {each.problem}" if each.alive else each.problem)
        elif here is not None and not each.is_here:
            found = differences(here.versions, each.versions, each.name)
            notes += [*found.refused, *found.told]
        if told := clock_note(each.name, each.clock_offset or 0.0):
            notes.append(told)
    return notes


def _as_json(member: Member) -> dict[str, Any]:
    return {
        "name": member.name,
        "ip": member.ip,
        "alive": member.alive,
        "is_here": member.is_here,
        "is_head": member.is_head,
        "problem": member.problem,
        "versions": member.versions,
        "devices": member.devices,
        "given": member.given.uuids,
        "clock_offset": member.clock_offset,
    }


def _say(sentences: Iterable[str]) -> None:
    for each in sentences:
        err().print(each, soft_wrap=True)
