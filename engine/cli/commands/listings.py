"""`runs`, `devices`, `strategies` and `recipes`: the commands that list things."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.text import Text

from engine.cli.commands.runs.run_query import RunQuery, print_table, select
from engine.cli.devices import why_not_there
from engine.cli.output import (
    MOST_LAID_OUT,
    STATE_STYLES,
    Exit,
    Refused,
    empty_table,
    err,
    format_bytes,
    format_number,
    format_percent,
    format_time,
    out,
    print_json,
    run_as_json,
    show_table,
)
from engine.cluster.member import Member
from engine.interface.engine import Engine
from engine.runs.run_info import SUPERVISOR, RunInfo, UnreadableRun
from engine.spec import catalog
from engine.spec.device_names import on_machine
from engine.system.program import call
from engine.telemetry.given_gpus import GivenGpus
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

_EVERY_RUN = RunQuery()


def runs(engine: Engine, query: RunQuery = _EVERY_RUN, *, json: bool) -> Exit:
    """List the runs that `query` chooses; without one, every run, newest first. Raises Refused."""
    was_enabled = gc.isenabled()
    gc.disable()  # of tens of thousands of runs none becomes garbage: it takes half of the time
    try:
        return _runs(engine, query, json=json)
    finally:
        if was_enabled:
            gc.enable()


def _runs(engine: Engine, query: RunQuery, *, json: bool) -> Exit:
    if json and query.has_columns:
        option = "--csv" if query.csv else "--columns"
        raise Refused(f"{option} chooses another form than --json: leave out one of the two.")
    news = engine.list_runs()
    changed = [*news.changed]
    every = [each for each in changed if isinstance(each, RunInfo)]
    others = [each for each in changed if isinstance(each, UnreadableRun)]
    unreadable = [*others, *news.unreadable]
    found: list[RunInfo | UnreadableRun]
    if query.filter or query.sort or query.has_columns:
        chosen = select(every, query, engine.machine)
        name_left_out(engine, unreadable)
        if query.has_columns:
            print_table(chosen, every, query)
            return Exit.DONE
        found = [*chosen]
        if not found and not json:
            out().print("No run passes the filter.")
            return Exit.DONE
    else:
        found = [*every, *unreadable]
        found.sort(key=lambda run: int(run.id), reverse=True)
    if json:
        print_json([_run_as_json(run) for run in found])
        return Exit.DONE
    if not found:
        start = call("train --recipe digits", engine.machine)
        out().print(f"There is no run yet: `{start}` starts one.")
        return Exit.DONE
    titles = ("id", "state", "name", "strategy", "devices", "epoch", "train loss", "started")
    rows: list[tuple[str | Text, ...]] = []
    has_colours = len(found) <= MOST_LAID_OUT
    for info in found:
        if isinstance(info, UnreadableRun):
            rows.append((info.id, Text("unreadable", "bold red"), *[""] * (len(titles) - 2)))
            err().print(info.reason, soft_wrap=True)
            continue
        loss = info.status.metrics.get("train/loss")
        rows.append(
            (
                info.id,
                Text(info.state, STATE_STYLES.get(info.state, "")) if has_colours else info.state,
                info.name,
                info.spec.strategy,
                ", ".join(info.spec.devices),
                _epoch(info),
                "–" if loss is None else format_number(loss),
                format_time(info.status.started),
            )
        )
        if trouble := info.status.troubles.get(SUPERVISOR):
            err().print(f"Run {info.id}: {trouble}", soft_wrap=True)
    show_table(titles, rows)
    return Exit.DONE


def name_left_out(engine: Engine, unreadable: Sequence[UnreadableRun]) -> None:
    """Say which runs no filter can look into, and no export can hold."""
    if unreadable:
        ids = ", ".join(run.id for run in unreadable)
        shown = call(f"show {unreadable[0].id}", engine.machine)
        text = f"Left out, because they cannot be read (`{shown}` says why): {ids}."
        err().print(text, soft_wrap=True)


def _epoch(info: RunInfo) -> str:
    if epochs := info.epochs:
        return f"{info.status.epoch}/{epochs}"
    return str(info.status.epoch) if info.status.epoch or not info.spec.is_imported else "–"


def _run_as_json(run: RunInfo | UnreadableRun) -> dict[str, Any]:
    if isinstance(run, RunInfo):
        return run_as_json(run)
    return {"id": run.id, "state": "unreadable", "reason": run.reason, "run_dir": str(run.folder)}


def devices(engine: Engine, *, json: bool) -> Exit:
    """List the CPU, and every GPU that the driver knows, also of the machines of the cluster.

    As text, also the loaded frameworks.
    """
    found, cluster = engine.list_devices(), engine.list_members()
    snapshot, problem = found.snapshot, cluster.problem
    others = [each for each in cluster.members if not each.is_here]
    if json:
        theirs = [_of_member(member, device) for member in others for device in member.devices]
        print_json([*snapshot.devices, *theirs])
    else:
        _print_devices(snapshot.devices)
        for member in others:
            out().print(f"\n{member.name} ({member.ip})", soft_wrap=True)
            if member.devices:
                _print_devices(member.devices, member.name)
    notes = [f"The other machines of the cluster are not known. {problem}"] if problem else []
    notes += _notes(snapshot, found.given)
    for member in others:
        if member.snapshot:
            told = _notes(member.snapshot, member.given)
            notes += [f"{member.name}: {text}" for text in told]
        else:
            notes.append(f"{member.name}: {member.problem}" if member.alive else member.problem)
    for text in notes:
        err().print(text, soft_wrap=True)
    return Exit.DONE


def _print_devices(devices: Iterable[DeviceSnapshot], machine: str = "") -> None:
    table = empty_table("device", "name", "memory", "used", "busy", "temp.", "power", "UUID")
    for device in devices:
        table.add_row(*_device_cells(device, machine))
    out().print(table)


def _of_member(member: Member, device: DeviceSnapshot) -> dict[str, Any]:
    """Return the JSON object of a device of another machine; its `id` is what a spec says."""
    named = {"machine": member.name, "id": on_machine(member.name, device.id)}
    return msgspec.structs.asdict(device) | named


def _notes(snapshot: Snapshot, given: GivenGpus) -> list[str]:
    """Return why GPUs are missing, or not given to Traindeck."""
    notes = [snapshot.gpu_note] if snapshot.gpu_note else []
    if given.withheld:
        names = snapshot.display_names()
        usable = ", ".join(names[uuid] for uuid in given.uuids) or "no GPU"
        notes.append(f"{given.limit} gives Traindeck {usable}.")
    return notes


def strategies(engine: Engine, *, json: bool) -> Exit:
    """List every strategy, what it needs, and whether it can run on the machine."""
    given = engine.list_devices().given
    rows = [(strategy, why_not_there(strategy, given)) for strategy in catalog.strategies()]
    if json:
        print_json(
            [
                {
                    "name": strategy.name,
                    "title": strategy.title,
                    "summary": strategy.summary,
                    "needs": strategy.needs,
                    "recipe_frameworks": sorted(strategy.recipe_frameworks),
                    "can_run": not why_not,
                    "why_not": why_not,
                }
                for strategy, why_not in rows
            ]
        )
        return Exit.DONE
    table = empty_table("name", "title", "needs", "trains", "runs here")
    for strategy, why_not in rows:
        trains = ", ".join(sorted(strategy.recipe_frameworks))
        runs_here = f"no: {why_not}" if why_not else "yes"
        table.add_row(strategy.name, strategy.title, strategy.needs, trains, runs_here)
    out().print(table)
    return Exit.DONE


def recipes(*, json: bool) -> Exit:
    """List the built-in recipes."""
    found = catalog.builtin_recipes()
    if json:
        print_json([msgspec.structs.asdict(recipe) for recipe in found])
        return Exit.DONE
    table = empty_table("name", "framework", "epochs", "batch size", "settings", "about")
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


def _device_cells(device: DeviceSnapshot, machine: str) -> list[str]:
    if device.kind == "cpu":
        reference, uuid = "cpu:0 … cpu:63", ""
    else:
        reference, uuid = f"gpu:{device.label}", device.id
    return [
        on_machine(machine, reference),
        f"{device.name} – {device.lost}" if device.lost else device.name,
        format_bytes(device.memory_total),
        format_bytes(device.memory_used),
        format_percent(device.utilisation),
        "–" if device.temperature is None else f"{device.temperature:.0f} °C",
        "–" if device.power is None else f"{device.power:.0f} W",
        uuid,
    ]
