"""Which cluster this machine belongs to, and which machines are in it.

`cluster.toml` in the data folder holds the membership, and `cluster-token` the token of the
cluster: who has it may run any code on all machines.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import threading
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from engine.cluster.address import LOOPBACK, is_reachable, parse_address
from engine.cluster.member import NAMESPACE, Member, ask_members, first_line
from engine.cluster.versions import RAY_NEEDED, ray_version
from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_regular, read_toml
from engine.processes.machine import this_machine
from engine.processes.process import ON_LINUX
from engine.system import paths
from engine.system.program import call

_log = logging.getLogger(__name__)

FILE_NAME = "cluster.toml"
TOKEN_NAME = "cluster-token"
_CONNECT_SECONDS = 3.0
_MOST_TOKEN = 1024
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_BREAKPOINT = "PYTHONBREAKPOINT"
"""Ray sets it in a driver. A template of workers that the driver starts would have it, and fork no
worker that has not."""

_before: dict[str, dict[str, str]] = {}
"""The environment of this process before Ray was imported, if it was."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,30}[A-Za-z0-9])?", re.ASCII)


class ClusterError(Exception):
    """What was asked of the cluster is not possible; the text is a sentence."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that this machine belongs to."""

    head: str
    """The address of the head, HOST:PORT, with an IPv4 address."""

    name: str
    """What this machine is called in the cluster."""

    ip: str
    """The IPv4 address of this machine that the others use."""

    is_head: bool = False
    member: str = ""
    """A random number of this membership: another machine that has the same name has another."""

    host: str = ""
    """The name of this host."""

    machine_id: str = ""
    """See `engine.processes.machine.Machine`: the data folder may be shared with other machines."""

    ports: str = ""
    """The range of ports for all but the head's own, such as 20000-20199; empty: any."""


def cluster() -> Cluster | None:
    """Return the cluster that this machine belongs to; None: to none. Raises ClusterError."""
    found = _saved()
    return None if found is None or _is_elsewhere(found) else found


def shared_with() -> str:
    """Return the host that has joined a cluster with this data folder; empty: none but this one.

    Raises ClusterError.
    """
    found = _saved()
    return found.host if found is not None and _is_elsewhere(found) else ""


def _is_elsewhere(found: Cluster) -> bool:
    here = this_machine()
    return bool(found.host) and (found.host, found.machine_id) != (here.host, here.id)


def _saved() -> Cluster | None:
    file = paths.home() / FILE_NAME
    try:
        found = msgspec.convert(read_toml(file), Cluster)
        parse_address(found.head)
    except FileNotFoundError:
        return None
    except Exception as error:  # the file is damaged in one of many ways
        raise ClusterError(
            f"The file of the cluster, {file}, cannot be read ({error}): remove it with "
            f"`{call('cluster leave')}`, and join again."
        ) from error
    if problem := name_problem(found.name):
        raise ClusterError(f"The file of the cluster, {file}, cannot be used. {problem}")
    return found


def this_cluster() -> Cluster:
    """Return the cluster that this machine belongs to. Raises ClusterError if it is in none."""
    require_ray()
    found = cluster()
    if found is None:
        raise ClusterError(
            f"This machine is in no cluster: begin one with `{call('cluster start')}`, or join one "
            "with the line that its first machine has printed."
        )
    return found


def require_ray() -> None:
    """Raise ClusterError if Ray cannot be used here."""
    if not ON_LINUX:
        raise ClusterError("A cluster needs Linux on all its machines: Ray supports no other.")
    if not ray_version():
        raise ClusterError(f"A cluster needs Ray, which is not installed: {RAY_NEEDED}.")


def save(joined: Cluster, token: str) -> None:
    """Write the membership of this machine and the token, for this user only. Raises OSError."""
    here = this_machine()
    joined = msgspec.structs.replace(joined, host=here.host, machine_id=here.id)
    paths.prepare_home()
    write_atomically(token_file(), token, mode=0o600, sync=True)
    content = tomli_w.dumps(msgspec.to_builtins(joined))
    write_atomically(paths.home() / FILE_NAME, content, mode=0o600, sync=True)


def forget() -> None:
    """Remove the membership and the token. Raises OSError."""
    (paths.home() / FILE_NAME).unlink(missing_ok=True)
    token_file().unlink(missing_ok=True)


def token_file() -> Path:
    """Return the path of the file with the token, which need not exist."""
    return paths.home() / TOKEN_NAME


def token() -> str:
    """Return the token of the cluster. Raises OSError, also if other users may read its file."""
    file = token_file()
    if file.lstat().st_mode & 0o077:
        raise PermissionError(f"{file} can be read by others: begin a new cluster, which has a new")
    return read_regular(file, _MOST_TOKEN).decode().strip()


def environment() -> dict[str, str]:
    """Return the environment variables of every process that talks to Ray.

    Without a cluster, all but what depends on it. Ray notices a machine that is silent within about
    8 s, and a node that the head does not know any more within 2 s.
    """
    found = cluster()
    return (_of(found) if found else {}) | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_file()),
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "2000",
        "RAY_health_check_failure_threshold": "3",
        "RAY_raylet_liveness_self_check_interval_ms": "2000",
        "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # who leaves is gone at once
        "RAY_memory_monitor_refresh_ms": "0",  # our own limits tell what ran out of memory
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a task without Ray's GPUs sees the GPUs
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_LOG_TO_DRIVER": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # a machine uses the Python that it has
    }


def _of(joined: Cluster) -> dict[str, str]:
    """Return the variables that depend on the cluster."""
    variables = {"RAY_ADDRESS": joined.head}
    if parse_address(joined.head).host == LOOPBACK:
        # Ray would replace 127.0.0.1 by an address that others reach, where such a head does not
        # listen. This variable, with which it does not, is meant for other systems than Linux.
        variables[ONE_MACHINE] = "0"
    if not joined.is_head:
        variables["RAY_NUM_REDIS_GET_RETRIES"] = "3"  # of a head that refuses the token
    return variables


def process_environment() -> dict[str, str]:
    """Return the environment of a program that uses Ray, from that of this process."""
    found = own_environment() | environment()
    found.pop("RAY_AUTH_TOKEN", None)  # of another cluster: Ray would prefer it to the file
    return found


def name_problem(name: str) -> str:
    """Return why a machine cannot have this name, in a sentence; empty: it can."""
    if _NAME.fullmatch(name):
        return ""
    return (
        f"{name!r} is no name for a machine: it has 1 to 32 letters, digits and `.`, `_`, `-`, and "
        "begins and ends with a letter or a digit. Choose one with --name."
    )


def connect(timeout: float = 30.0) -> None:
    """Make this process a Ray driver of the cluster, if it is none. Raises ClusterError.

    It changes the environment of this process: call `disconnect` when the driver is not needed any
    more.
    """
    found = this_cluster()
    if not is_reachable(parse_address(found.head), _CONNECT_SECONDS):
        raise ClusterError(
            f"The head of the cluster, {found.head}, does not answer: is that machine on, and "
            f"`{call('cluster status')}` all right there?"
        )
    if ray_module().is_initialized():
        return
    outcome: list[Exception | None] = []

    def begin() -> None:
        try:
            ray_module().init(
                address=found.head,
                _node_ip_address=found.ip,
                namespace=NAMESPACE,
                log_to_driver=False,
                configure_logging=False,
            )
        except Exception as error:  # Ray raises its own, gRPC's and the system's
            outcome.append(error)
        else:
            outcome.append(None)

    beginning = threading.Thread(target=begin, daemon=True, name="ray")
    beginning.start()  # Ray waits without a limit if the node of this machine is away
    beginning.join(timeout)
    if outcome == [None]:
        _restore(_BREAKPOINT)
        return
    if not outcome:
        raise ClusterError(
            f"Ray did not answer within {timeout:g} s: the head, {found.head}, or the Ray node of "
            "this machine hangs, or does not run."
        )
    raise ClusterError(
        f"The Ray node of this machine cannot be used ({first_line(outcome[0])}): "
        f"`{call('cluster status')}` says what it does."
    )


def ray_module() -> Any:
    """Return Ray, which reads its environment variables when it is first imported."""
    _before.setdefault("environment", dict(os.environ))
    os.environ.update(environment())
    os.environ.pop("RAY_AUTH_TOKEN", None)  # of another cluster: Ray would prefer it to the file
    logging.getLogger("ray").setLevel(logging.ERROR)
    import ray

    return ray


def _restore(variable: str) -> None:
    """Give a variable that Ray has set the value that this process was started with."""
    before = own_environment().get(variable)
    if before is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = before


def own_environment() -> dict[str, str]:
    """Return the environment variables of this process without those that Ray was given or sets."""
    return dict(_before.get("environment", os.environ))


def disconnect() -> None:
    """End what `connect` has begun; other processes of the cluster go on."""
    ray_module().shutdown()


def members(timeout: float = 30.0) -> list[Member]:
    """Return the machines of the cluster, by name; it takes at most about twice `timeout` seconds.

    Each is asked for its versions, devices and clock; one that does not answer in time is listed
    with its `problem`, and one that was lost with `alive` false. Connects to Ray if this process is
    not connected, and disconnects then. Raises ClusterError.
    """
    found = this_cluster()
    ray = ray_module()
    if ray.is_initialized():
        return _members(found, timeout)
    # Ray prints the stacks of lost nodes on standard output, whatever its settings.
    with contextlib.redirect_stdout(_Told()):
        try:
            connect(timeout)
            return _members(found, timeout)
        finally:
            disconnect()


def _members(found: Cluster, timeout: float) -> list[Member]:
    try:
        return ask_members(found.name, timeout)
    except ray_module().exceptions.RayError as error:
        raise ClusterError(f"The cluster does not answer: {first_line(error)}.") from error


class _Told(io.TextIOBase):
    """Standard output while this process is connected to Ray."""

    def write(self, text: str) -> int:
        """Log what Ray prints."""
        if text.strip():
            _log.info("Ray: %s", text.rstrip())
        return len(text)
