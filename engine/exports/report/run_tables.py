"""The parts of a report that describe one run: its state, figures, settings and facts."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.exports.report.markup import (
    Html,
    cell,
    details,
    element,
    joined,
    row_title,
    said,
    table,
    text,
)
from engine.exports.report.plots import place_of
from engine.exports.report.report_run import ReportRun
from engine.exports.run_source import source_of
from engine.facts.redaction import without_secrets
from engine.facts.settings import SettingRow
from engine.runs.run_state import TRAINING_LOSS
from engine.runs.series_names import is_machine_memory, series_name
from engine.system import units

_MOST_LAYERS = 400
_MOST_EVENTS = 500
_FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "keras": "Keras", "numpy": "NumPy"}


def head(run: ReportRun) -> Html:
    """Return name, state, tags and note."""
    info = run.info
    tags = [said("span", tag, class_="tag") for tag in info.notes.tags]
    return joined(
        (
            said("h1", info.name),
            said("p", f"{info.title} · started {_moment(info.status.started)}", class_="muted"),
            element("p", state(run), text(f" {info.reason}" if info.reason else "")),
            element("p", *tags) if tags else Html(""),
            said("p", info.notes.note, class_="note") if info.notes.note else Html(""),
        )
    )


def state(run: ReportRun) -> Html:
    """Return the state in its colour; of an imported run, that it is one."""
    if run.info.spec.is_imported:
        return said("span", "imported", class_="state")
    name = str(run.info.state)
    return said("span", name, class_=f"state {name.split()[0]}")


def cards(run: ReportRun) -> Html:
    """Return the figures that one looks for first."""
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
    made = [
        element("div", said("b", value), said("span", what), class_="card") for value, what in found
    ]
    return element("div", *made, class_="cards")


def figures(run: ReportRun) -> Html:
    """Return last and best value of each series."""
    rows = []
    for name, each in run.figures.items():
        best, step = "", ""
        if each.best is not None:
            best = value_text(name, each.best.value, each.factor)
            step = f"{each.best.step:,}"
        rows.append(
            [
                row_title(f"{name} (whole machine)" if is_machine_memory(name) else name),
                cell(value_text(name, each.last, each.factor), number=True),
                cell(best, number=True),
                cell(step, number=True),
                cell(f"{each.points:,}", number=True),
            ]
        )
    return table(("Series", "Last", "Best", "at step", "Points"), rows)


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


def settings(run: ReportRun) -> Html:
    """Return all settings; those that differ from the default or the parent are marked."""
    chosen = [row for row in run.settings if row.differs]
    rest = [row for row in run.settings if not row.differs]
    first = [row for row in rest if row.default is None]
    usual = [row for row in rest if row.default is not None]
    words = "Marked: what differs from the default"
    words += f" or from run #{run.parent}, from which this one goes on." if run.parent else "."
    return joined(
        (
            said("p", words, class_="muted") if chosen else Html(""),
            table((), (_setting(row) for row in (*first, *chosen))),
            details(f"{len(usual)} settings with their default", table((), map(_setting, usual))),
        )
    )


def _setting(row: SettingRow) -> list[Html]:
    more = []
    if row.differs_from_other:
        more.append(said("span", f"was {row.was or '–'}", class_="default"))
    if row.differs_from_default:
        more.append(said("span", f"default {row.default or '–'}", class_="default"))
    title = row.title if row.group == "Run" else f"{row.group}: {row.title}"
    value = without_secrets(row.value) or "–"
    return [row_title(title), cell(value, differs=row.differs, more=joined(more))]


def setting_cells(run: ReportRun) -> dict[str, str]:
    """Return the value of each setting by its title."""
    titles = [row.title for row in run.settings]
    return {
        row.title if titles.count(row.title) == 1 else f"{row.title} ({row.name})": without_secrets(
            row.value
        )
        for row in run.settings
    }


def environment(run: ReportRun) -> Html:
    """Return Python, frameworks, machine, devices, and the packages, folded."""
    rows = [[row_title(name), cell(value)] for name, value in _environment(run)]
    facts = run.facts.attempt
    packages = facts.packages if facts is not None else {}
    folded = table((), ([row_title(name), cell(version)] for name, version in packages.items()))
    if run.info.spec.is_imported:
        return said("p", f"Imported from {source_of(run.info.spec)}.")
    if not rows:
        return said("p", "It was not recorded.", class_="muted")
    return joined((table((), rows), details(f"{len(packages)} packages", folded)))


def environment_cells(run: ReportRun) -> dict[str, str]:
    """Return environment and code by name, to compare them."""
    return dict([*_environment(run), *_git(run)])


def _environment(run: ReportRun) -> Iterator[tuple[str, str]]:
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


def git(run: ReportRun) -> Html:
    """Return commit, branch and what was not committed; nothing if the code is in no repository."""
    return table((), ([row_title(name), cell(value)] for name, value in _git(run)))


def _git(run: ReportRun) -> Iterator[tuple[str, str]]:
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


def model(run: ReportRun) -> Html:
    """Return the layers with their parameters."""
    found = run.facts.model
    if found is None or not found.layers:
        return Html("")
    layers = found.layers[:_MOST_LAYERS]
    rows = [
        [
            row_title("\N{NO-BREAK SPACE}" * 4 * each.depth + (each.path or each.kind)),
            cell(each.kind if each.path else ""),
            cell(f"{each.parameters:,}", number=True),
            cell(f"{each.trainable:,}", number=True),
            cell(units.byte_size(each.bytes), number=True),
        ]
        for each in layers
    ]
    total = f"{found.parameters:,} parameters, {found.trainable:,} of them trained"
    shown = table(("Layer", "Kind", "Parameters", "Trained", "Size"), rows)
    if len(layers) < len(found.layers):
        left = f"{len(found.layers) - len(layers):,} more layers are left out."
        shown = joined((shown, said("p", left, class_="muted")))
    return joined(
        (said("p", f"{total}, {units.byte_size(found.bytes)}."), details("Layers", shown))
    )


def events(run: ReportRun) -> Html:
    """Return the phases and what happened, oldest first."""
    phases = [
        [
            row_title(f"{_moment(span.begin)}"),
            cell(str(span.phase)),
            cell(units.duration(span.end - span.begin), number=True),
            cell(span.text),
        ]
        for span in run.spans
    ]
    happened = run.happened[-_MOST_EVENTS:]
    rows = [
        [row_title(_moment(each.time)), cell(each.kind), cell(without_secrets(each.text))]
        for each in happened
    ]
    note = Html("")
    if len(happened) < len(run.happened):
        left = f"{len(run.happened) - len(happened):,} earlier ones are left out."
        note = said("p", left, class_="muted")
    return joined(
        (table(("From", "Phase", "Duration", ""), phases), table(("Time", "Event", ""), rows), note)
    )


def _filled(rows: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, without_secrets(value)) for name, value in rows.items() if value)


def _size(memory: int) -> str:
    return units.gib(memory, 0) if memory else ""


def _moment(moment: float) -> str:
    return units.date_and_time(moment) if moment else "never"
