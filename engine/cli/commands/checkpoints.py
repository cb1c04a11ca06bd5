"""`checkpoints ID`: lists the checkpoints of a run, here or on another machine, and copies one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from engine.cli import transfers
from engine.cli.output import Exit, Interrupted, Refused, format_bytes, format_time, out, print_json
from engine.remote.machines import RemoteMachine
from engine.runs.checkpoint_files import CheckpointInfo
from engine.system.program import call

NEWEST = "newest"
"""In place of the name of a checkpoint."""


def checkpoints(
    run_id: str,
    copied: str | None,
    output: Path | None,
    machine: RemoteMachine | None = None,
    *,
    json: bool,
) -> Exit:
    """List the checkpoints of a run, or copy the one with the name `copied` to `output`.

    `machine`: where the run is, if not here. Raises NoSuchRun, Refused, NoAnswer, Interrupted.
    """
    if copied is not None:
        try:
            return _copy(run_id, copied, output, machine, json=json)
        except KeyboardInterrupt:
            raise Interrupted("Nothing was kept of the checkpoint.") from None
    if output is not None:
        raise Refused("--output is for --copy: which checkpoint is to be copied?")
    return _show(run_id, machine, json=json)


def _show(run_id: str, machine: RemoteMachine | None, *, json: bool) -> Exit:
    found = transfers.list_checkpoints(machine, run_id)
    if json:
        print_json([_as_json(each) for each in found])
    elif found:
        out().print(checkpoint_table(found))
    else:
        out().print(f"Run {_called(run_id, machine)} has no checkpoint.", soft_wrap=True)
    return Exit.DONE


def _copy(
    run_id: str, name: str, output: Path | None, machine: RemoteMachine | None, *, json: bool
) -> Exit:
    if output is not None:
        transfers.check_target(output)

    def choose(found: Sequence[CheckpointInfo]) -> tuple[CheckpointInfo, Path]:
        chosen = _chosen(found, name, run_id, machine)
        proposed = f"{_called(run_id, machine).replace(':', '-')}-{chosen.folder.name}"
        return chosen, (output or Path(f"run-{proposed}")).expanduser().absolute()

    chosen, target = transfers.fetch_checkpoint(machine, run_id, choose)
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


def _chosen(
    found: Sequence[CheckpointInfo], name: str, run_id: str, machine: RemoteMachine | None
) -> CheckpointInfo:
    by_name = {each.folder.name: each for each in found}
    if name == NEWEST and found:
        return found[-1]
    if name not in by_name:
        run = _called(run_id, machine)
        what = "checkpoint" if name == NEWEST else f"checkpoint {name}"
        raise Refused(f"Run {run} has no {what}: `{call(f'checkpoints {run}')}` lists them.")
    return by_name[name]


def _called(run_id: str, machine: RemoteMachine | None) -> str:
    return f"{machine.name}:{run_id}" if machine else run_id


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
