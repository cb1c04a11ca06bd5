"""`python -m engine.cluster.new_node BEGUN`: whether the Ray node that has begun here may stay.

It is a process of its own, because Ray ends a process that is connected to it with the head.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import msgspec

from engine.cluster import membership
from engine.cluster.member import ask_head, first_line, other_node
from engine.cluster.membership import Cluster, ClusterError
from engine.cluster.versions import differences, own_versions
from engine.processes.process import PROJECT, module_environment

_MODULE = "engine.cluster.new_node"
_SECONDS = 90.0
_ANSWER_SECONDS = 30.0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the new node."""

    refusal: str = ""
    """Why this machine may not be in the cluster, in a sentence; empty: it may."""

    problem: str = ""
    """Why it cannot be now, in a sentence; it may try again."""

    differs: tuple[str, ...] = ()
    """What differs on the head and may, in sentences."""


def ask(begun: str) -> Answer:
    """Ask the head about the Ray node of this machine that has the label `begun`."""
    command = [sys.executable, "-P", "-m", _MODULE, begun]
    with suppress(subprocess.TimeoutExpired, ValueError, IndexError):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=_SECONDS,
            cwd=PROJECT,
            env=module_environment(membership.process_environment()),
        )
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=Answer)
    return Answer(problem="The head does not answer: does a firewall lie between?")


def main() -> int:
    """Print the answer; return the exit code."""
    try:
        membership.connect(_ANSWER_SECONDS)
        answer = _examine(membership.this_cluster(), sys.argv[1])
    except ClusterError as error:
        answer = Answer(problem=str(error))
    except Exception as error:  # Ray raises many
        answer = Answer(problem=f"The head does not answer ({first_line(error)}).")
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.flush()
    membership.disconnect()
    return 0


def _examine(joined: Cluster, begun: str) -> Answer:
    if address := other_node(joined.name, joined.member):
        return Answer(
            refusal=f"There is a machine {joined.name} in the cluster already, with the address "
            f"{address}: choose another name with --name."
        )
    head = ask_head(begun, _ANSWER_SECONDS)
    if head.cannot_reach:  # Ray would take this machine for lost some seconds later
        return Answer(
            problem=f"The head cannot reach this machine at {joined.ip} ({head.cannot_reach}): "
            "does a firewall lie between? All machines of a cluster have to reach each other; with "
            "--ports they need that range only."
        )
    found = differences(own_versions(), head.versions, head.name)
    if found.refused:
        return Answer(
            refusal=" ".join(found.refused) + " They have to be equal on all machines of a "
            "cluster: install the same versions here."
        )
    return Answer(differs=found.told)


if __name__ == "__main__":
    sys.exit(main())
