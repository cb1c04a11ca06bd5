"""The overview of a run as Markdown, for an issue, a paper or a message."""

from __future__ import annotations

from collections.abc import Sequence

from engine.facts.history import History, MarkKind, Phase
from engine.runs.run_info import RunInfo
from engine.runs.run_overview import RunOverview
from engine.system import units
from gui.overview.facts_text import environment_lines, git_lines
from gui.overview.model_tree import count_text
from gui.overview.segments import Line
from gui.style.formatting import metric
from gui.style.state_style import state_name

_MOST_LAYERS = 40


def as_markdown(info: RunInfo, overview: RunOverview, history: History) -> str:
    """Return the run in sections: result, settings, environment, code, model, timeline, notes."""
    parts = [f"# {_plain(info.title)}", _result(info, history)]
    if info.notes.note:
        parts.append("\n".join(f"> {_plain(line)}" for line in info.notes.note.splitlines()))
    parts += ["## Settings", _settings(overview)]
    parts += ["## Environment", _lines(environment_lines(overview, info))]
    facts, model = overview.facts.attempt, overview.facts.model
    if facts is not None and facts.git is not None:
        parts += ["## Code", _lines(git_lines(facts.git))]
    if overview.packages and overview.other is not None:
        rows = [(name, new or "–", old or "–") for name, new, old in overview.packages]
        titles = ("Package", "Version", f"In {overview.other.label}")
        parts += ["## Packages that differ", _table(titles, rows)]
    if model is not None and model.layers:
        total = f"{count_text(model.parameters)} parameters, {units.byte_size(model.bytes)}"
        layers = [
            (layer.path or layer.kind, layer.kind, f"{layer.parameters:,}")
            for layer in model.layers
            if layer.parameters
        ]
        titles = ("Module", "Kind", "Parameters")
        parts += [f"## Model: {total}", _table(titles, layers[:_MOST_LAYERS])]
        if len(layers) > _MOST_LAYERS:
            parts.append(f"and {len(layers) - _MOST_LAYERS:,} more modules.")
    marks = [mark for mark in history.marks if mark.kind is not MarkKind.CHECKPOINT]
    if marks:
        rows_of_marks = [(units.date_and_time(mark.time), mark.text) for mark in marks[-40:]]
        parts += ["## Timeline", _table(("Time", "Event"), rows_of_marks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _result(info: RunInfo, history: History) -> str:
    status = info.status
    rows = [("State", state_name(info.state)), ("Step", f"{status.step:,}")]
    if info.reason:
        rows.append(("Reason", info.reason))
    if status.started:
        rows.append(("Started", units.date_and_time(status.started)))
    rows.append(("Duration", units.steady_duration(history.seconds())))
    rows.append(("Training", units.steady_duration(history.seconds(Phase.TRAINING))))
    rows += [(name, metric(name, value)) for name, value in sorted(status.metrics.items())]
    if info.notes.tags:
        rows.append(("Tags", ", ".join(info.notes.tags)))
    return _table(("", ""), rows)


def _settings(overview: RunOverview) -> str:
    titles = ["Setting", "Value", "Default"]
    if overview.other is not None:
        titles.append(f"In {overview.other.label}")
    rows = []
    for row in overview.settings:
        value = f"**{_cell(row.value or '–')}**" if row.differs else _cell(row.value or "–")
        value += f" ({_cell(row.note)})" if row.note else ""
        default = row.default if row.differs_from_default else ""
        was = (row.was or "–") if row.differs_from_other else ""
        cells = [_cell(row.title), value, _cell(default or "")]
        rows.append([*cells, _cell(was)] if overview.other is not None else cells)
    return _joined(titles, rows)


def _lines(lines: Sequence[Line]) -> str:
    rows = [
        tuple(" ".join(piece.text for piece in cell if piece.text) for cell in line.cells)
        for line in lines
    ]
    return _table(("", ""), rows)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return _joined(titles, [[_cell(text) for text in row] for row in rows])


def _joined(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _cell(text: str) -> str:
    """Return a text that no table of Markdown is broken by, and that is shown as it is."""
    return _plain(text.replace("\r", "").replace("\n", " ")).replace("|", "\\|")


def _plain(text: str) -> str:
    for character in "\\`*_<>":
        text = text.replace(character, f"\\{character}")
    return text
