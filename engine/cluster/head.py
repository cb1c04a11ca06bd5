"""Asks the head of a cluster from a machine that has no Ray node yet, and registers it there.

Each machine has a record under its name in Ray's key-value store. So a name is claimed by one
machine, and a machine knows the versions of the others before it joins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from engine.cluster.address import Address, is_reachable
from engine.cluster.member import LABEL, NAMESPACE, RECORDS
from engine.cluster.membership import Cluster, ClusterError, ray_module
from engine.cluster.versions import Versions
from engine.system.program import call

REACH_SECONDS = 5.0
_TIME = 10.0
"""Seconds for one answer."""

_STARTING_SECONDS = 120.0
"""After this time, a machine that has claimed a name and has no Ray node has given up."""

_SPACE = NAMESPACE.encode()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine says of itself when it joins."""

    name: str
    member: str
    ip: str
    versions: Versions
    is_head: bool = False
    claimed: float = 0.0
    """Seconds since the epoch, by its own clock."""


class Unreachable(ClusterError):
    """The head does not answer now."""


class Head:
    """The head of a cluster. Every method raises ClusterError; Unreachable if it is away."""

    def __init__(self, address: Address) -> None:
        """Connect; the token and Ray's other settings are in the environment of this process."""
        self._address = address
        if not is_reachable(address, REACH_SECONDS):
            raise Unreachable(
                f"The head of the cluster does not answer at {address}: is that machine on, is "
                f"`{call('cluster start')}` running there, and does no firewall lie between?"
            )
        ray_module()
        from ray._raylet import GcsClient

        self._client = self._asked(lambda: GcsClient(address=str(address)))
        self._asked(lambda: self._client.internal_kv_keys(b"", b"cluster", _TIME))

    def records(self) -> dict[str, Record]:
        """Return the records of all machines that have joined, by name, also of lost ones."""
        names = self._asked(lambda: self._client.internal_kv_keys(RECORDS.encode(), _SPACE, _TIME))
        found = {}
        for key in names:
            text = self._asked(lambda key=key: self._client.internal_kv_get(key, _SPACE, _TIME))
            try:
                record = msgspec.json.decode(text, type=Record)
            except (ValueError, TypeError):  # removed at this moment, or of another version
                continue
            found[record.name] = record
        return found

    def alive(self) -> dict[str, str]:
        """Return the ids of the living Ray nodes by the names of their machines."""
        nodes = self._asked(lambda: self._client.get_all_node_info(timeout=_TIME))
        return {
            str(node.labels[LABEL]): str(node_id.hex())
            for node_id, node in nodes.items()
            if node.state == 0 and LABEL in node.labels
        }

    def claim(self, joined: Cluster, versions: Versions) -> None:
        """Register this machine under its name. Raises ClusterError if another one has it."""
        record = Record(
            name=joined.name,
            member=joined.member,
            ip=joined.ip,
            versions=versions,
            is_head=joined.is_head,
            claimed=time.time(),
        )
        before = self.records().get(joined.name)
        is_ours = before is not None and before.member == joined.member
        if before is not None and not is_ours:
            starts = abs(time.time() - before.claimed) < _STARTING_SECONDS
            if starts or joined.name in self.alive():
                raise ClusterError(
                    f"There is a machine {joined.name} in the cluster already, with the address "
                    f"{before.ip}: choose another name with --name."
                )
            self.release(before)
        if not (self._put(record, overwrite=is_ours) or is_ours):
            raise ClusterError(
                f"Another machine joins with the name {joined.name} at this moment: choose another "
                "name with --name."
            )

    def release(self, record: Record | Cluster) -> None:
        """Remove the record of a machine, if it is still this one's."""
        current = self.records().get(record.name)
        if current is not None and current.member == record.member:
            key = f"{RECORDS}{record.name}".encode()
            self._asked(lambda: self._client.internal_kv_del(key, False, _SPACE, _TIME))

    def _put(self, record: Record, *, overwrite: bool) -> bool:
        key, value = f"{RECORDS}{record.name}".encode(), msgspec.json.encode(record)
        added = self._asked(
            lambda: self._client.internal_kv_put(key, value, overwrite, _SPACE, _TIME)
        )
        return bool(added)

    def _asked(self, question: Any) -> Any:
        import ray

        try:
            with _no_output():
                return question()
        except ray.exceptions.AuthenticationError:
            raise ClusterError(
                f"The head at {self._address} refuses the token: copy the whole line that it has "
                f"printed; `{call('cluster start')}` prints it there again."
            ) from None
        except (ray.exceptions.RayError, OSError) as error:
            raise Unreachable(
                f"What listens at {self._address} does not answer as the head of a cluster "
                f"({str(error).strip().splitlines()[0][:200]})."
            ) from error


@contextmanager
def _no_output() -> Iterator[None]:
    """Throw away what Ray's C++ code prints meanwhile: no setting silences its client."""
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
