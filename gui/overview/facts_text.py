"""The facts of a run as lines: environment, code, files, packages."""

from __future__ import annotations

from collections.abc import Sequence

from engine.facts.git_state import GitState
from engine.facts.settings import SettingRow
from engine.runs.run_info import RunInfo
from engine.runs.run_overview import RunOverview
from engine.system import units
from gui.overview.segments import Line, Piece, piece

_MOST_FILES = 12
_SHORT = 10
"""Digits of a commit."""

_FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "keras": "Keras", "numpy": "NumPy"}


def setting_lines(rows: Sequence[SettingRow], *, only_changed: bool) -> list[Line]:
    """Return the settings; those that differ are marked, with what they were."""
    lines = []
    for row in rows:
        if only_changed and not (row.differs or row.note):
            continue
        tone = "warn" if row.differs else "text"
        pieces = [Piece(row.value or "–", tone, bold=row.differs)]
        tip = [row.doc]
        if row.differs_from_other:
            value = row.was or "–"
            was = f"was {value}"
            pieces.append(Piece(was, "muted", small=True))
        if row.differs_from_default:
            default = row.default or "–"
            pieces.append(Piece(f"default {default}", "muted", small=True))
        if row.note:
            pieces.append(Piece(row.note, "warn", small=True))
        tip.append(row.name.replace("settings.", "").replace("option ", ""))
        title = (Piece(row.title, "muted"),)
        lines.append(Line((title, tuple(pieces)), "\n".join(filter(None, tip)), row.differs))
    return lines


def environment_lines(overview: RunOverview, info: RunInfo) -> list[Line]:
    """Return Python, frameworks, machine, devices and the command."""
    facts, model = overview.facts.attempt, overview.facts.model
    lines: list[Line] = []

    def add(name: str, *values: str, tip: str = "") -> None:
        cell = tuple(Piece(value) for value in values if value)
        if cell:
            lines.append(Line((piece(name, "muted"), cell), tip))

    if facts is None:
        for name, value in overview.environment.items():
            add(_FRAMEWORKS.get(name, name), value)
        return [*lines, *_command_line(overview)]
    loaded = dict(model.versions) if model is not None else {}
    add("Python", facts.python, tip=facts.interpreter)
    frameworks = [
        f"{title} {loaded.pop(name, '') or facts.packages.get(name, '')}"
        for name, title in _FRAMEWORKS.items()
        if (name in loaded) or (name == "numpy" and name in facts.packages)
    ]
    if not frameworks:
        frameworks = [
            f"{title} {facts.packages[name]}"
            for name, title in _FRAMEWORKS.items()
            if name in facts.packages
        ]
    add("Framework", *frameworks)
    cuda = [f"{name} {loaded[name]}" for name in ("cuDNN", "NCCL") if name in loaded]
    built = loaded.get("CUDA") or ""
    if not built:
        builds = {value for name, value in facts.builds.items() if name.startswith("CUDA")}
        built = next(iter(builds), "") if len(builds) == 1 else ""
    add("CUDA", built, *cuda)
    add("GPUs", *_gpus(overview))
    add("Driver", facts.driver)
    cores = f"{facts.cores or facts.threads} cores"
    add(
        "Host",
        " · ".join(filter(None, [facts.host, cores, units.gib(facts.memory, 0)])),
        tip=_host_tip(overview),
    )
    add("CPU", facts.processor)
    add("System", facts.platform)
    lines += _command_line(overview)
    if (planning := overview.facts.planning) is not None:
        add("Measured before", planning.summary, tip=planning.summary)
    for problem in facts.problems:
        lines.append(Line((piece("!", "warn"), piece(problem, "warn")), problem))
    return lines


def _command_line(overview: RunOverview) -> list[Line]:
    text = overview.command or overview.command_problem
    if not text:
        return []
    return [Line((piece("Command", "muted"), piece(text)), "")]


def _gpus(overview: RunOverview) -> list[str]:
    facts = overview.facts.attempt
    assert facts is not None
    named: dict[str, list[str]] = {}
    for device in facts.devices:
        if not device.id.startswith("cpu:"):
            memory = f" {units.gib(device.memory, 0)}" if device.memory else ""
            label = device.label.removeprefix("GPU ") or device.id[:12]
            named.setdefault(f"{device.name}{memory}".strip(), []).append(label)
    return [f"{', '.join(labels)} · {name}".strip(" ·") for name, labels in named.items()]


def _host_tip(overview: RunOverview) -> str:
    facts = overview.facts.attempt
    assert facts is not None
    return (
        f"{facts.cores} cores, {facts.threads} threads, of which the run may use "
        f"{facts.usable_threads}"
    )


def git_lines(state: GitState) -> list[Line]:
    """Return branch, commit, message, changes and remote."""
    lines: list[Line] = []

    def add(name: str, cell: tuple[Piece, ...], tip: str = "") -> None:
        lines.append(Line((piece(name, "muted"), cell), tip))

    if state.commit:
        branch = state.branch or "no branch"
        short = state.commit[:_SHORT]
        add("Branch", piece(f"{branch} · {short}"), state.commit)
        when = units.date_and_time(state.committed) if state.committed else ""
        add("Message", piece(state.message), when)
    if state.changed_files >= 0:
        add("Changes", _changes(state), "\n".join(state.changed[:40]))
    if state.untracked_files > 0:
        text = f"{files_text(state.untracked_files)}, content not kept"
        names = "\n".join(state.untracked[:40])
        add("Untracked", piece(text, "warn"), names)
    if state.remote:
        address = state.remote.partition("://")[2] or state.remote
        add("Remote", piece(address))
    if state.folder:
        add("Folder", piece(state.folder))
    if state.problem:
        add("!", piece(state.problem, "warn"))
    return lines


def _changes(state: GitState) -> tuple[Piece, ...]:
    if not state.changed_files:
        return piece("none, as committed", "ok")
    cell = [Piece(f"{files_text(state.changed_files)} not committed", "warn")]
    if state.added or state.removed or not state.problem:
        cell += [Piece(f"+{state.added:,}", "ok"), Piece(f"−{state.removed:,}", "bad")]
    return tuple(cell)


def file_lines(overview: RunOverview) -> list[Line]:
    """Return what the run folder holds."""
    lines = []
    for each in [each for each in overview.files if each.bytes][:_MOST_FILES]:
        size = units.byte_size(each.bytes)
        if each.files:
            more = "" if each.is_whole else "+"
            size = f"{size} · {files_text(each.files)}{more}"
        lines.append(Line((piece(each.name, "muted"), piece(size))))
    return lines


def files_text(count: int) -> str:
    """Return `1 file` or `2 files`."""
    if count == 1:
        return "1 file"
    return f"{count:,} files"
