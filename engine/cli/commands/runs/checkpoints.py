"""`checkpoints ID`: lists the checkpoints of a run, and copies one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from engine.cli.output import Exit, Interrupted, Refused, format_bytes, format_time, out, print_json
from engine.cli.transfers import check_target, downloading
from engine.interface.engine import Engine
from engine.interface.files.transfers import copy_checkpoint
from engine.interface.values import id_of
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.system.program import call

NEWEST = "newest"
"""In place of the name of a checkpoint."""


def checkpoints(
    engine: Engine, run_id: str, copied: str | None, output: Path | None, *, json: bool
) -> Exit:
    """List the checkpoints of a run, or copy the one with the name `copied` to `output`.

    Raises Refused, Unanswered, Interrupted.
    """
    if copied is not None:
        try:
            return _copy(engine, run_id, copied, output, json=json)
        except KeyboardInterrupt:
            raise Interrupted("Nothing was kept of the checkpoint.") from None
    if output is not None:
        raise Refused("--output is for --copy: which checkpoint is to be copied?")
    return _show(engine, run_id, json=json)


def _show(engine: Engine, run_id: str, *, json: bool) -> Exit:
    found = engine.list_checkpoints(run_id)
    if json:
        print_json([_as_json(each) for each in found])
    elif found:
        out().print(checkpoint_table(found))
    else:
        out().print(f"Run {id_of(engine.machine, run_id)} has no checkpoint.", soft_wrap=True)
    return Exit.DONE


def _copy(engine: Engine, run_id: str, name: str, output: Path | None, *, json: bool) -> Exit:
    if output is not None:
        check_target(output)
    called = id_of(engine.machine, run_id)
    chosen = _chosen(engine.list_checkpoints(run_id), name, called)
    proposed = f"run-{called.replace(':', '-')}-{chosen.folder.name}"
    target = (output or Path(proposed)).expanduser().absolute()
    with downloading("downloading" if engine.machine else "copying") as progress:
        copy_checkpoint(engine, run_id, chosen.folder.name, target, progress)
    if json:
        print_json({"folder": str(target), **_as_json(chosen)})
    else:
        out().print(str(target), soft_wrap=True)
    return Exit.DONE


def checkpoint_table(checkpoints: Sequence[CheckpointInfo]) -> Table:
    """Return a table of checkpoints."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("checkpoint", "step", "kinds", "size", "saved"):
        table.add_column(column)
    for info in checkpoints:
        manifest = info.manifest
        table.add_row(
            info.folder.name,
            str(manifest.position.step),
            ", ".join(manifest.kinds) or "–",
            format_bytes(manifest.bytes),
            format_time(manifest.saved),
        )
    return table


def _chosen(found: Sequence[CheckpointInfo], name: str, run: str) -> CheckpointInfo:
    by_name = {each.folder.name: each for each in found}
    if name == NEWEST and found:
        return found[-1]
    if name not in by_name:
        what = "checkpoint" if name == NEWEST else f"checkpoint {name}"
        raise Refused(f"Run {run} has no {what}: `{call(f'checkpoints {run}')}` lists them.")
    return by_name[name]


def _as_json(info: CheckpointInfo) -> dict[str, Any]:
    manifest = info.manifest
    return {
        "checkpoint": info.folder.name,
        "step": manifest.position.step,
        "epoch": manifest.position.epoch,
        "kinds": manifest.kinds,
        "bytes": manifest.bytes,
        "saved": manifest.saved,
        "metrics": manifest.metrics,
    }
