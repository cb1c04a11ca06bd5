"""What a machine may be called, and which hosts SSH knows by name."""

from __future__ import annotations

from pathlib import Path

from engine.files.regular_file import UnfitFile, read_regular

_LARGEST = 2**20


def machine_problem(name: str, destination: str, command: str) -> str:
    """Return why a machine cannot be added so, in a sentence; empty: it can."""
    from engine.system import machines

    machine = machines.RemoteMachine(name=name, destination=destination, command=command)
    return machines.destination_problem(destination) or machines.machine_problem(machine)


def ssh_hosts() -> list[str]:
    """Return the aliases of the user's configuration of SSH, without patterns."""
    try:
        content = read_regular(Path.home() / ".ssh" / "config", _LARGEST, follow_links=True)
    except (OSError, UnfitFile):
        return []
    found: list[str] = []
    for line in content.decode(errors="replace").splitlines():
        keyword, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if keyword.casefold() == "host":
            found += [each for each in rest.split() if not set(each) & set("*?!")]
    return list(dict.fromkeys(found))
