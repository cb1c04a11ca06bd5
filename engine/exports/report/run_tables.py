"""What a report says of one run in tables: its figures, settings and facts."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.exports.report.plots import place_of
from engine.exports.report.report_run import ReportRun
from engine.runs.run_state import TRAINING_LOSS
from engine.runs.series_names import is_machine_memory, series_name
from engine.scripts.secrets import redacted
from engine.system import units

_FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "keras": "Keras", "numpy": "NumPy"}


def cards(run: ReportRun) -> list[tuple[str, str]]:
    """Return the figures that one looks for first, and what they are."""
    status = run.info.status
    found = []
    metrics = [run.primary, *(name for name in run.figures if name.startswith("validation/"))]
    for name in list(dict.fromkeys(filter(None, metrics)))[:3]:
        best = run.figures[name].best
        if best is not None:
            value = value_text(name, best.value, run.figures[name].factor)
            found.append((value, f"best {series_name(name)}, step {best.step:,}"))
    if TRAINING_LOSS in run.figures:
        value = value_text(TRAINING_LOSS, run.figures[TRAINING_LOSS].last)
        found.append((value, f"{series_name(TRAINING_LOSS)}, last"))
    if status.epochs:
        found.append((f"{status.epoch} of {status.epochs}", "epochs"))
    found.append((f"{status.step:,}", "steps"))
    found.append((units.duration(run.seconds), "duration"))
    if status.samples_per_second:
        found.append((f"{status.samples_per_second:,.0f} samples/s", "throughput, last"))
    if status.energy:
        found.append((f"{status.energy:.4g} Wh", "energy of the GPUs"))
    if status.parameters:
        found.append((f"{status.parameters:,}", "parameters"))
    return found


def figures(run: ReportRun) -> list[tuple[str, ...]]:
    """Return name, last and best value, step of the best and number of points of each series."""
    rows: list[tuple[str, ...]] = []
    for name, each in run.figures.items():
        best, step = "", ""
        if each.best is not None:
            best = value_text(name, each.best.value, each.factor)
            step = f"{each.best.step:,}"
        title = f"{name} (whole machine)" if is_machine_memory(name) else name
        rows.append(
            (title, value_text(name, each.last, each.factor), best, step, f"{each.points:,}")
        )
    return rows


def best_or_last(run: ReportRun, series: str) -> str:
    """Return the best value of a series of a validation, and the last one of another."""
    found = run.figures.get(series)
    if found is None:
        return "–"
    value = found.best.value if found.best is not None else found.last
    return value_text(series, value, found.factor)


def value_text(series: str, value: float, factor: float = 1.0) -> str:
    """Return a value times `factor` with its unit, with enough digits to quote it."""
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "NaN")
    return f"{value * factor:.5g} {place_of(series).unit}".rstrip()


def setting_cells(run: ReportRun) -> dict[str, str]:
    """Return the value of each setting by its title."""
    titles = [row.title for row in run.settings]
    return {
        row.title if titles.count(row.title) == 1 else f"{row.title} ({row.name})": redacted(
            row.value
        )
        for row in run.settings
    }


def environment_cells(run: ReportRun) -> dict[str, str]:
    """Return environment and code by name, to compare them."""
    return dict([*environment(run), *git(run)])


def environment(run: ReportRun) -> Iterator[tuple[str, str]]:
    """Yield what is known of Python, frameworks, machine and devices."""
    facts, model = run.facts.attempt, run.facts.model
    if facts is None:
        yield from run.environment.items()
        return
    loaded = dict(model.versions) if model is not None else {}
    versions = {name: loaded.pop(name, "") or facts.packages.get(name, "") for name in _FRAMEWORKS}
    cores = f"{facts.cores or facts.threads} cores" if facts.cores or facts.threads else ""
    yield from _filled(
        {
            "Python": facts.python,
            **{_FRAMEWORKS[name]: version for name, version in versions.items()},
            **loaded,
            "Devices": ", ".join(
                " ".join(filter(None, (each.label, each.name, _size(each.memory)))) or each.id
                for each in facts.devices
            ),
            "Driver": facts.driver,
            "Host": " · ".join(filter(None, (facts.host, cores, _size(facts.memory)))),
            "Processor": facts.processor,
            "System": facts.platform,
            "Traindeck": facts.traindeck,
            "Not recorded": " ".join(facts.problems),
        }
    )


def git(run: ReportRun) -> Iterator[tuple[str, str]]:
    """Yield commit, branch and what was not committed; nothing if the code is in no repository."""
    facts = run.facts.attempt
    if facts is None or facts.git is None:
        return
    state = facts.git
    changes = ""
    if state.changed_files >= 0:
        changes = "none, as committed"
        if state.changed_files:
            files = "1 file" if state.changed_files == 1 else f"{state.changed_files:,} files"
            changes = f"{files} not committed, +{state.added:,} −{state.removed:,}"
    yield from _filled(
        {
            "Commit": state.commit,
            "Branch": state.branch,
            "Message": state.message,
            "Changes": changes,
            "Changed files": ", ".join(state.changed[:40]),
            "Untracked files": f"{state.untracked_files:,}" if state.untracked_files > 0 else "",
            "Remote": state.remote,
            "Problem": state.problem,
        }
    )


def _filled(rows: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, redacted(value)) for name, value in rows.items() if value)


def _size(memory: int) -> str:
    return units.gib(memory, 0) if memory else ""
