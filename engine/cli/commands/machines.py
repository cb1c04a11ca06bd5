"""`machines`: the other machines whose runs are watched and commanded over SSH."""

from __future__ import annotations

import time

from rich.table import Table

from engine.cli.output import Exit, Refused, err, out, print_json
from engine.interface.values import NoAnswer
from engine.remote.short_session import open_session
from engine.system import machines
from engine.system.machines import CannotChangeMachines, RemoteMachine
from engine.system.program import CONSOLE_SCRIPT, call


def show(*, json: bool) -> Exit:
    """Print the machines that were added."""
    found = machines.machines()
    if json:
        print_json(found)
        return Exit.DONE
    if not found:
        added = call("machines add NAME user@host")
        out().print(f"No other machine was added: `{added}` adds one.", soft_wrap=True)
        return Exit.DONE
    table = Table("name", "destination", "command", box=None, pad_edge=False, header_style="bold")
    for each in found:
        table.add_row(each.name, each.destination, each.command)
    out().print(table)
    return Exit.DONE


def add(name: str, destination: str, start: str | None, *, json: bool) -> Exit:
    """Add a machine; nothing is asked of it yet. Raises Refused."""
    added = RemoteMachine(name=name, destination=destination, command=start or CONSOLE_SCRIPT)
    try:
        machines.add(added)
    except CannotChangeMachines as error:
        raise Refused(str(error)) from None
    if json:
        print_json(added)
        return Exit.DONE
    out().print(f"The machine {name} was added: {destination}", soft_wrap=True)
    checked = call(f"machines check {name}")
    err().print(f"`{checked}` connects to it, and says what it lacks.", soft_wrap=True)
    return Exit.DONE


def remove(name: str, *, json: bool) -> Exit:
    """Remove a machine from the list; nothing changes there. Raises Refused."""
    try:
        removed = machines.remove(name)
    except CannotChangeMachines as error:
        raise Refused(str(error)) from None
    if json:
        print_json(removed)
    else:
        out().print(f"The machine {name} is not known any more.", soft_wrap=True)
    return Exit.DONE


def check(name: str, *, json: bool) -> Exit:
    """Connect to a machine, and print what answers; FAILED: nothing does. Raises Refused."""
    try:
        machine = machines.machine(name)
    except CannotChangeMachines as error:
        raise Refused(str(error)) from None
    begun = time.monotonic()
    try:
        with err().status(f"Connecting to {name} …"), open_session(machine) as (engine, hello):
            connected = time.monotonic() - begun
            begun = time.monotonic()
            engine.ping()
            round_trip = time.monotonic() - begun
    except NoAnswer as error:
        if json:
            print_json({"name": name, "state": "failed", "reason": str(error)})
        err().print(str(error), soft_wrap=True)
        return Exit.FAILED
    if json:
        print_json(
            {
                "name": name,
                "state": "connected",
                "host": hello.host,
                "version": hello.version,
                "seconds": connected,
                "round_trip": round_trip,
            }
        )
    else:
        out().print(
            f"{name} answers: Traindeck {hello.version} on {hello.host}, connected in "
            f"{connected:.1f} s, {1000 * round_trip:.0f} ms from a question to its answer.",
            soft_wrap=True,
        )
    return Exit.DONE
