"""What a run was started with, as `show` prints it."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from engine.cli.output import format_bytes, format_time
from engine.facts.git_state import GitState
from engine.facts.run_facts import ModelFacts
from engine.runs.run_overview import RunOverview

_MOST_MODULES = 20
_MOST_PACKAGES = 12


def print_facts(console: Console, overview: RunOverview) -> None:
    """Print what differs, environment, code and model of a run."""
    table = Table.grid(padding=(0, 2))
    if (other := overview.other) is not None:
        changed = [row for row in overview.settings if row.differs_from_other]
        texts = [f"{row.title} {row.value or '–'} (was {row.was or '–'})" for row in changed]
        label = f"compared with {other.label}"
        table.add_row(label, ", ".join(texts) or f"the same settings ({other.reason})")
    for row in overview.settings:
        if row.note:
            table.add_row(row.title.lower(), row.note)
    facts = overview.facts.attempt
    if overview.command:
        table.add_row("repeat with", overview.command)
    if (planning := overview.facts.planning) is not None:
        table.add_row("measured before", planning.summary)
    if overview.facts.problem:
        table.add_row("facts", overview.facts.problem)
    elif facts is None:
        table.add_row("facts", "not recorded by the version that started this run")
    if facts is not None:
        versions = overview.facts.model.versions if overview.facts.model else {}
        loaded = ", ".join(f"{name} {text}" for name, text in versions.items())
        table.add_row("python", ", ".join(filter(None, [facts.python, loaded])))
        memory = format_bytes(facts.memory)
        table.add_row("host", f"{facts.host}: {facts.cores or facts.threads} cores, {memory}")
        named = [device for device in facts.devices if device.name]
        for device in named:
            size = f", {format_bytes(device.memory)}" if device.memory else ""
            table.add_row(device.label or "device", f"{device.name}{size} ({device.id})")
        if facts.driver:
            table.add_row("driver", facts.driver)
        table.add_row("packages", _packages(overview))
        if facts.git is not None:
            _add_git(table, facts.git)
        for problem in facts.problems:
            table.add_row("", problem)
    console.print()
    console.print(table)
    if (model := overview.facts.model) is not None:
        _print_model(console, model)


def facts_as_json(overview: RunOverview) -> dict[str, Any]:
    """Return the same as values for `--json`."""
    facts = overview.facts
    other = overview.other
    settings = [
        {
            "name": row.name,
            "title": row.title,
            "group": row.group,
            "value": row.value,
            "default": row.default,
            "was": row.was,
            "note": row.note,
        }
        for row in overview.settings
    ]
    return {
        "overview": {
            "settings": settings,
            "compared_with": other and {"run": other.label, "because": other.reason},
            "repeat_with": overview.command or None,
            "attempt": msgspec.to_builtins(facts.attempt),
            "model": _model_as_json(facts.model),
            "parent": msgspec.to_builtins(facts.parent),
            "planning": msgspec.to_builtins(facts.planning),
            "packages_that_differ": [list(each) for each in overview.packages],
            "files": {each.name: each.bytes for each in overview.files},
            "problem": facts.problem or None,
        }
    }


def _model_as_json(model: ModelFacts | None) -> dict[str, Any] | None:
    if model is None:
        return None
    names = model.layers[0].__struct_fields__ if model.layers else ()
    layers = [{name: getattr(layer, name) for name in names} for layer in model.layers]
    return {
        "parameters": model.parameters,
        "trainable": model.trainable,
        "bytes": model.bytes,
        "versions": model.versions,
        "layers": layers,
        "problem": model.problem or None,
    }


def _packages(overview: RunOverview) -> str:
    facts = overview.facts.attempt
    assert facts is not None
    text = f"{len(facts.packages)}"
    if overview.packages and overview.other is not None:
        shown = [
            f"{name} {new or '–'} (was {old or '–'})"
            for name, new, old in overview.packages[:_MOST_PACKAGES]
        ]
        more = len(overview.packages) - len(shown)
        text += f"; {', '.join(shown)}" + (f" and {more} more" if more else "")
    return text


def _add_git(table: Table, state: GitState) -> None:
    if state.commit:
        branch = state.branch or "no branch"
        table.add_row("git", f"{branch} · {state.commit[:10]} · {state.message}")
        if state.committed:
            table.add_row("committed", format_time(state.committed))
    if state.changed_files > 0:
        files = f"{state.changed_files} file{'' if state.changed_files == 1 else 's'}"
        shown = "; `show ID --diff` prints it" if state.diff_bytes else ""
        table.add_row("changes", f"{files} not committed, +{state.added} −{state.removed}{shown}")
    if state.untracked_files > 0:
        table.add_row("untracked", ", ".join(state.untracked[:10]))
    if state.remote:
        table.add_row("remote", state.remote)
    if state.problem:
        table.add_row("git", state.problem)


def _print_model(console: Console, model: ModelFacts) -> None:
    if not model.layers:
        if model.problem:
            console.print(model.problem)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("module", "kind"):
        table.add_column(column)
    for column in ("parameters", "trained", "size"):
        table.add_column(column, justify="right")
    depth = 1
    while depth < 6 and sum(layer.depth <= depth + 1 for layer in model.layers) <= _MOST_MODULES:
        depth += 1
    shown = [layer for layer in model.layers if layer.depth <= depth][:_MOST_MODULES]
    for layer in shown:
        table.add_row(
            f"{'  ' * layer.depth}{layer.path.rpartition('.')[2] or 'model'}",
            layer.kind,
            f"{layer.parameters:,}",
            f"{layer.trainable:,}",
            format_bytes(layer.bytes),
        )
    console.print()
    console.print(table)
    if len(shown) < len(model.layers):
        console.print(f"{len(model.layers) - len(shown):,} more modules: `show ID --json`")
