"""`runs`, `devices`, `strategies` and `recipes`: the commands that list things."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from engine.cli.devices import why_not_here
from engine.cli.output import (
    STATE_STYLES,
    Exit,
    err,
    format_bytes,
    format_number,
    format_percent,
    format_time,
    out,
    print_json,
    run_as_json,
)
from engine.client import RunInfo, UnreadableRun
from engine.runs.run_index import RunIndex
from engine.spec import catalog
from engine.system.program import call
from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.snapshot import DeviceSnapshot


def runs(*, json: bool) -> Exit:
    """List every run, newest first."""
    index = RunIndex()
    found: list[RunInfo | UnreadableRun] = [*index.runs(), *index.unreadable]
    found.sort(key=lambda run: int(run.id), reverse=True)
    if json:
        print_json([_run_as_json(run) for run in found])
        return Exit.DONE
    if not found:
        out().print(f"There is no run yet: `{call('train --recipe digits')}` starts one.")
        return Exit.DONE
    table = _table("id", "state", "recipe", "strategy", "devices", "epoch", "loss", "started")
    for info in found:
        if isinstance(info, UnreadableRun):
            table.add_row(info.id, Text("unreadable", "bold red"))
            err().print(info.reason, soft_wrap=True)
            continue
        loss = info.status.metrics.get("train/loss")
        table.add_row(
            info.id,
            Text(str(info.state), STATE_STYLES.get(info.state, "")),
            info.name,
            info.spec.strategy,
            ", ".join(info.spec.devices),
            f"{info.status.epoch}/{info.spec.epochs}",
            "–" if loss is None else format_number(loss),
            format_time(info.status.started),
        )
    out().print(table)
    return Exit.DONE


def _run_as_json(run: RunInfo | UnreadableRun) -> dict[str, Any]:
    if isinstance(run, RunInfo):
        return run_as_json(run)
    return {"id": run.id, "state": "unreadable", "reason": run.reason, "run_dir": str(run.folder)}


def devices(*, json: bool) -> Exit:
    """List the CPU, and every GPU that the driver knows."""
    snapshot = snapshot_once()
    if json:
        print_json(snapshot.devices)
    else:
        table = _table("say", "name", "memory", "used", "busy", "temp.", "power", "UUID")
        for row in snapshot.devices:
            table.add_row(*_device_cells(row))
        out().print(table)
    if snapshot.gpu_note:
        err().print(snapshot.gpu_note, soft_wrap=True)
    return Exit.DONE


def strategies(*, json: bool) -> Exit:
    """List every strategy, what it needs, and whether it can run on this machine."""
    snapshot = snapshot_once()
    rows = [(known, why_not_here(known, snapshot)) for known in catalog.strategies()]
    if json:
        print_json(
            [
                {
                    "name": known.name,
                    "title": known.title,
                    "summary": known.summary,
                    "needs": known.needs,
                    "recipe_frameworks": sorted(known.recipe_frameworks),
                    "can_run": not why_not,
                    "why_not": why_not,
                }
                for known, why_not in rows
            ]
        )
        return Exit.DONE
    table = _table("name", "title", "needs", "trains", "runs here")
    for known, why_not in rows:
        trains = ", ".join(sorted(known.recipe_frameworks))
        table.add_row(
            known.name, known.title, known.needs, trains, f"no: {why_not}" if why_not else "yes"
        )
    out().print(table)
    return Exit.DONE


def recipes(*, json: bool) -> Exit:
    """List the built-in recipes."""
    found = catalog.builtin_recipes()
    if json:
        print_json([msgspec.structs.asdict(recipe) for recipe in found])
        return Exit.DONE
    table = _table("name", "framework", "epochs", "batch size", "settings", "about")
    for recipe in found:
        settings = ", ".join(f"{field.name}={field.default}" for field in recipe.fields)
        table.add_row(
            recipe.name,
            recipe.framework or "–",
            str(recipe.epochs),
            str(recipe.batch_size),
            settings or "–",
            recipe.problem or recipe.doc,
        )
    out().print(table)
    out().print("A file of your own: --recipe path/to/file.py", soft_wrap=True)
    return Exit.DONE


def _device_cells(row: DeviceSnapshot) -> list[str]:
    if row.kind == "cpu":
        say, identity = "cpu:0 … cpu:63", ""
    else:
        say, identity = f"gpu:{row.label}", row.id
    return [
        say,
        f"{row.name} – {row.lost}" if row.lost else row.name,
        format_bytes(row.memory_total),
        format_bytes(row.memory_used),
        format_percent(row.utilisation),
        "–" if row.temperature is None else f"{row.temperature:.0f} °C",
        "–" if row.power is None else f"{row.power:.0f} W",
        identity,
    ]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
