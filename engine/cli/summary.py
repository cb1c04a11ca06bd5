"""The result of a run and its failure, as several commands print them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.cli.output import STATE_STYLES, format_duration, format_number
from engine.client import RunInfo
from engine.interface.values import RunDetails
from engine.messages.events import Failure


def print_summary(console: Console, info: RunInfo, details: RunDetails, now: float) -> None:
    """Print the result of a run; `now`: the time of day on its machine."""
    status = info.status
    table = Table.grid(padding=(0, 2))
    state = Text(str(info.state), STATE_STYLES.get(info.state, ""))
    table.add_row(info.title, state)
    if info.reason:
        table.add_row("reason", info.reason)
    for trouble in info.status.troubles.values():
        if trouble not in info.reason:
            table.add_row("trouble", trouble)
    if info.epochs:
        table.add_row("epoch", f"{status.epoch} of {info.epochs}")
    elif info.spec.steps:
        table.add_row("epoch", f"{status.epoch}")
    table.add_row("step", _of_total(info))
    end = status.updated if info.state.is_over else now
    table.add_row("time", format_duration(status.seconds(end)))
    if status.samples_per_second > 0:
        table.add_row("throughput", f"{status.samples_per_second:,.0f} samples/s")
    if status.energy:
        table.add_row("energy", f"{status.energy:.4g} Wh")
    for name, value in sorted(status.metrics.items()):
        table.add_row(name, format_number(value))
    if status.checkpoint:
        table.add_row("checkpoint", details.checkpoint)
    table.add_row("folder", str(info.folder))
    console.print(table)


def _of_total(info: RunInfo) -> str:
    """Return `3 of 10`; of a script, whose end is often not known, perhaps only the step."""
    step, total = info.status.step, info.status.total_steps
    has_end = total or not (info.spec.is_script or info.spec.is_imported)
    return f"{step} of {total}" if has_end else str(step)


def print_failure(console: Console, failure: Failure | None) -> None:
    """Print the root cause, if a run has failed."""
    if failure is None:
        return
    console.print(failure.message, style="red", soft_wrap=True)
    for line in failure.details.splitlines():
        console.print(f"  {line}", soft_wrap=True)
    if failure.rank >= 0:
        end = failure.signal or f"exit code {failure.exit_code}"
        place = f" on {failure.device}" if failure.device else ""  # a coordinator has no device
        console.print(f"  rank {failure.rank}{place}: {end}", soft_wrap=True)
    if failure.where:
        console.print(f"  at {failure.where}", soft_wrap=True)
    if failure.log_tail:
        console.print("  last lines of its log:", soft_wrap=True)
        for line in failure.log_tail.rstrip().splitlines():
            console.print(f"    {line}", soft_wrap=True)
