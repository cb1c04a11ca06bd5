"""`queue`: shows the runs that use devices or wait for them, and changes the order."""

from __future__ import annotations

from rich.table import Table

from engine import client
from engine.cli.output import Exit, Refused, out, print_json
from engine.client import NoSuchRun
from engine.processes.machine import share_devices, this_machine
from engine.runs import device_queue
from engine.runs.device_queue import CannotMoveRun
from engine.spec.device_names import all_on_cpu
from engine.telemetry.helper_client import snapshot_once


def show(*, json: bool) -> Exit:
    """Show every active run: first those that use their devices, then the queue in order."""
    tickets = sorted(device_queue.read(), key=lambda ticket: ticket.place == "waiting")
    if json:
        print_json([{"id": t.run, "place": t.place, "devices": t.devices} for t in tickets])
        return Exit.DONE
    if not tickets:
        out().print("No run is active, and none waits.")
        return Exit.DONE
    gpus = not all(all_on_cpu(ticket.devices) for ticket in tickets)
    names = snapshot_once().display_names() if gpus else {}
    table = Table("run", "devices", "place", box=None, pad_edge=False, header_style="bold")
    for ticket in tickets:
        ahead = device_queue.ahead_of(ticket, tickets)
        waits = device_queue.describe(ticket, ahead, names) if ahead else "Its turn has come."
        devices = ", ".join(names.get(device, device) for device in ticket.devices)
        place = {
            "inside": "Uses them.",
            "aside": "Paused, with its devices freed for others.",
            "waiting": waits,
        }
        host = "" if share_devices(ticket.machine, this_machine()) else f" ({ticket.machine.host})"
        table.add_row(_title(ticket.run), f"{devices}{host}", place[ticket.place])
    out().print(table)
    return Exit.DONE


def move(run_id: str, where: str, *, json: bool) -> Exit:
    """Move a waiting run `up`, `down` or `first`, and show the queue. Raises Refused, NoSuchRun."""
    for direction in device_queue.MOVES:
        if direction == where:
            client.get_run(run_id)
            try:
                device_queue.move(run_id, direction)
            except CannotMoveRun as error:
                raise Refused(str(error)) from None
            return show(json=json)
    raise Refused(
        f"A run can be moved {', '.join(device_queue.MOVES[:-1])} or {device_queue.MOVES[-1]}."
    )


def _title(run_id: str) -> str:
    if run_id.startswith(device_queue.MEASUREMENT):
        return run_id
    try:
        return client.get_run(run_id).title
    except NoSuchRun:
        return f"#{run_id}"  # its folder was just removed
