"""How a run ended, in words."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.cli.output import STATE_STYLES, duration, number
from engine.client import RunInfo
from engine.messages.events import Failure, RunEnded
from engine.runs.store_reader import RunReader


def print_summary(console: Console, info: RunInfo) -> None:
    """The result of a run at a glance."""
    status = info.status
    table = Table.grid(padding=(0, 2))
    state = Text(str(info.state), STATE_STYLES.get(info.state, ""))
    table.add_row(info.title, state)
    if info.reason:
        table.add_row("reason", info.reason)
    table.add_row("epoch", f"{status.epoch} of {info.spec.epochs}")
    table.add_row("step", f"{status.step} of {status.total_steps}")
    until = status.updated if info.state.is_over else time.time()
    table.add_row("time", duration(status.seconds(until)))
    if status.samples_per_second > 0:
        table.add_row("throughput", f"{status.samples_per_second:,.0f} samples/s")
    for name, value in sorted(status.metrics.items()):
        table.add_row(name, number(value))
    if status.checkpoint:
        table.add_row("checkpoint", str(info.folder / status.checkpoint))
    table.add_row("folder", str(info.folder))
    console.print(table)


def print_failure(console: Console, info: RunInfo) -> None:
    """What went wrong first, for a run that failed; nothing for any other."""
    failure = read_failure(info)
    if failure is None:
        return
    console.print(failure.message, style="red", soft_wrap=True)
    if failure.rank >= 0:
        how = failure.signal or f"exit code {failure.exit_code}"
        console.print(f"  rank {failure.rank} on {failure.device}: {how}", soft_wrap=True)
    if failure.where:
        console.print(f"  at {failure.where}", soft_wrap=True)
    if failure.log_tail:
        console.print("  last lines of its log:", soft_wrap=True)
        for line in failure.log_tail.rstrip().splitlines():
            console.print(f"    {line}", soft_wrap=True)


def read_failure(info: RunInfo) -> Failure | None:
    """The failure of the last attempt, if it failed. Raises sqlite3.Error."""
    if info.status.attempt == 0:
        return None
    with RunReader(info.folder) as reader:
        events = reader.events_after(0)
    for stored in reversed(events):
        if isinstance(stored.event, RunEnded):
            return stored.event.failure if stored.event.state == info.state else None
    return None
