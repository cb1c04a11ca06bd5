"""`queue`: shows the runs that use devices or wait for them, and changes the order."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from engine.cli.output import Exit, Refused, out, print_json
from engine.interface.engine import Engine
from engine.runs import device_queue


def queue(engine: Engine, move: Sequence[str] | None, *, json: bool) -> Exit:
    """Show the queue; before, `move` a run: its number, and where to. Raises Refused."""
    return move_run(engine, *move, json=json) if move else show(engine, json=json)


def show(engine: Engine, *, json: bool) -> Exit:
    """Show every active run: first those that use their devices, then the queue in order."""
    queued = engine.list_queue()
    if json:
        print_json([{"id": q.run, "place": q.place, "devices": q.devices} for q in queued])
        return Exit.DONE
    if not queued:
        out().print("No run is active, and none waits.")
        return Exit.DONE
    table = Table("run", "devices", "place", box=None, pad_edge=False, header_style="bold")
    for each in queued:
        place = {
            "inside": "Uses them.",
            "aside": "Paused, with its devices freed for others.",
            "waiting": each.waits,
        }
        table.add_row(each.title, each.named, place[each.place])
    out().print(table)
    return Exit.DONE


def move_run(engine: Engine, run: str, where: str, *, json: bool) -> Exit:
    """Move a waiting run `up`, `down` or `first`, and show the queue. Raises Refused."""
    for direction in device_queue.MOVES:
        if direction == where:
            engine.get_run(run)
            engine.move_in_queue(run, direction)
            return show(engine, json=json)
    raise Refused(
        f"A run can be moved {', '.join(device_queue.MOVES[:-1])} or {device_queue.MOVES[-1]}."
    )
