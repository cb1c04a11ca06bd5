"""The words and numbers of a race: what an entry is called, what it has shown, what won."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.planning.results import Doing, Entry
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.system import units
from gui.run_form.choices import full_title
from gui.style.formatting import step_time

SHARES = ("compute", "communication", "data")
"""The parts of a step, in the order of the bar."""

NOTHING = "–"

DisplayName = Callable[[str], str]
"""Returns the name of a device of a spec for display."""


def title(entry: Entry) -> str:
    """Return strategy and framework, such as `DDP · PyTorch`."""
    return strategy_title(entry.strategy)


def strategy_title(name: str) -> str:
    """Return title and framework of a strategy; the name itself of one that is not known here."""
    try:
        return full_title(catalog.strategy(name))
    except catalog.UnknownName:
        return name


def place(machine: str) -> str:
    """Return on which machine something is measured: `on gpus`; empty: on this one."""
    return f"on {machine}" if machine else ""


def subject(spec: RunSpec, display: DisplayName, machine: str = "") -> str:
    """Return what was measured: `on gpus · digits · DDP · PyTorch · GPU 0, GPU 1 · batch 64`."""
    return " · ".join(
        (
            *filter(None, (place(machine),)),
            spec.recipe.rpartition("/")[2],
            strategy_title(spec.strategy),
            ", ".join(map(display, spec.devices)),
            f"batch {spec.batch_size:,}",
        )
    )


def doing_text(doing: Doing) -> str:
    """Return what is measured now, with the title of the strategy as everywhere in the window."""
    name = doing.strategy
    return doing.text.replace(name, strategy_title(name)) if name else doing.text


def differing(entries: Iterable[Entry]) -> frozenset[str]:
    """Return in which of devices, batch size and precision `entries` differ."""
    entries = list(entries)
    seen: dict[str, set[object]] = {
        "devices": {len(entry.devices) for entry in entries},
        "batch_size": {entry.batch_size for entry in entries},
        "precision": {entry.precision for entry in entries},
    }
    return frozenset(name for name, values in seen.items() if len(values) > 1)


def variant(entry: Entry, names: frozenset[str]) -> str:
    """Return the values of an entry in which it differs from others: `× 2 · batch 64 · bf16`."""
    texts = {
        "devices": f"× {len(entry.devices)}",
        "batch_size": f"batch {entry.batch_size:,}",
        "precision": entry.precision,
    }
    return " · ".join(text for name, text in texts.items() if name in names)


def second_line(entry: Entry, names: frozenset[str]) -> str:
    """Return what is below the name of an entry: how it differs, and whether it ties with the
    fastest one."""
    tie = "a tie" if entry.is_tied else ""
    return " · ".join(filter(None, (variant(entry, names), tie)))


def name(entry: Entry, names: frozenset[str]) -> str:
    """Return strategy and framework, and what tells the entry from others of its strategy."""
    different = variant(entry, names)
    return f"{title(entry)}{' ' if different.startswith('×') else ' · '}{different}".rstrip(" ·")


def ordered(entries: Iterable[Entry]) -> list[Entry]:
    """Return the fastest first, and those that did not do their steps last."""
    return sorted(entries, key=lambda entry: -(entry.samples_per_second or 0.0))


def winner(entries: Sequence[Entry]) -> Entry | None:
    """Return the fastest one; None: none has done its steps."""
    return next((entry for entry in ordered(entries) if entry.samples_per_second), None)


def rate(entry: Entry) -> str:
    """Return samples per second as a number."""
    value = entry.samples_per_second
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def efficiency(entry: Entry) -> str:
    """Return the efficiency in percent."""
    return NOTHING if entry.efficiency is None else f"{100 * entry.efficiency:.0f} %"


def first_step(entry: Entry) -> str:
    """Return the time to the first step."""
    return step_time(entry.first_step_seconds) if entry.first_step_seconds else NOTHING


def joules(entry: Entry) -> str:
    """Return the energy for a sample."""
    if entry.joules is None:
        return NOTHING
    return f"{entry.joules:.3g} J" if entry.joules >= 0.1 else f"{1000 * entry.joules:.3g} mJ"


def fullest(entry: Entry, totals: Mapping[str, float]) -> tuple[float, float]:
    """Return the memory of the device that is the fullest, and how much it has, in bytes; 0 for
    what is not known. `totals`: by device."""
    found = [(used, totals.get(device, 0.0)) for device, used in entry.memory.items()]
    return max(found, key=lambda pair: pair[0] / pair[1] if pair[1] else 0.0, default=(0.0, 0.0))


def memory(entry: Entry, totals: Mapping[str, float]) -> str:
    """Return the memory of the device that is the fullest: `61/80 G`."""
    used, total = fullest(entry, totals)
    if not used:
        return NOTHING
    digits = 1 if used < 10 * units.GIB else 0
    text = f"{used / units.GIB:.{digits}f}"
    return f"{text}/{total / units.GIB:.0f} G" if total else f"{text} G"


def shares(entry: Entry) -> str:
    """Return how a step is divided: `compute 88 %, communication 10 %, data 2 %`."""
    names = {"compute": "compute", "communication": "communication", "data": "data"}
    parts = [
        f"{names[name]} {100 * entry.shares[name]:.0f} %" for name in SHARES if name in entry.shares
    ]
    return ", ".join(parts)


def sentence(entry: Entry, totals: Mapping[str, float], display: DisplayName) -> str:
    """Return all that an entry has shown, for a tooltip, a screen reader and the line below."""
    devices = ", ".join(display(device) for device in entry.devices)
    head = f"{title(entry)} on {devices}, batch {entry.batch_size:,}, {entry.precision}"
    if entry.problem:
        return f"{head}: {entry.problem}"
    figures = [f"{rate(entry)} samples/s"]
    if entry.noise:
        figures[0] += f" ± {100 * entry.noise:.1f} %"
    if entry.efficiency is not None:
        figures.append(f"efficiency {efficiency(entry)}")
    if entry.memory:
        figures.append(f"{memory(entry, totals)} of memory")
    if entry.first_step_seconds:
        figures.append(f"first step after {first_step(entry)}")
    if entry.joules is not None:
        figures.append(f"{joules(entry)} for a sample")
    if entry.shares:
        figures.append(f"a step is {shares(entry)}")
    said = f"{head}: {', '.join(figures)}."
    if entry.is_tied:
        said += " " + "The fastest one is no faster within the noise."
    return said
