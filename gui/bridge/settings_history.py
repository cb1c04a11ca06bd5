"""How the settings of a run differ between its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import msgspec
from PySide6.QtCore import QObject, Signal

from engine.messages.events import AttemptStarted
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.store_reader import StoredEvent
from engine.spec.run_spec import FIELDS, RunSpec
from gui.bridge.background import Background
from gui.bridge.machines.machines import UNREADABLE, Machines


class SettingsEdits(QObject):
    """Reads the changes before the attempts of the watched run when a later one has begun."""

    changed = Signal(object)
    """The `edits` of the watched run."""

    trouble = Signal(str)
    """A sentence: why they are not known."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._run_id: str | None = None

    def watch(self, run_id: str | None) -> None:
        """Read those of the run `run_id` from now on."""
        self._run_id = run_id

    def add_events(self, events: Sequence[StoredEvent]) -> None:
        """Read the changes if new events of the run say that there may be some."""
        attempts = (each.event for each in events if isinstance(each.event, AttemptStarted))
        if self._run_id is not None and any(each.attempt > 1 for each in attempts):
            self._background.run(
                partial(_run_edits, self._background.machines, self._run_id),
                partial(self._report, self._run_id),
                partial(self._failed, self._run_id),
            )

    def _report(self, run_id: str, found: dict[int, str]) -> None:
        if run_id == self._run_id:
            self.changed.emit(found)

    def _failed(self, run_id: str, error: Exception) -> None:
        if not isinstance(error, UNREADABLE):
            raise error
        if run_id == self._run_id:
            text = f"What was changed in the settings of run {run_id} is not known: {error}"
            self.trouble.emit(text)


def _run_edits(machines: Machines, run_id: str) -> dict[int, str]:
    engine, run = machines.engine_of(run_id)
    return edits(engine.read_settings(run))


def edits(history: SettingsHistory) -> dict[int, str]:
    """Return the changes in words, such as `strategy torch/single → torch/ddp`, by the number of
    the attempt that began with them. Settings that cannot be read are left out."""
    specs = [*history.older.values(), history.now]
    return {
        attempt: text
        for attempt, (before, after) in zip(history.older, pairwise(specs), strict=True)
        if before and after and (text := changes(before, after))
    }


def changes(before: RunSpec, after: RunSpec) -> str:
    """Return the differences in words; empty if there are none."""
    old, new = _flat(before), _flat(after)
    return ", ".join(
        f"{_title(name)} {_text(old.get(name))} → {_text(new.get(name))}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    )


def _flat(spec: RunSpec) -> dict[str, object]:
    settings = spec.settings
    own = {
        name: value for name, value in msgspec.structs.asdict(spec).items() if name != "settings"
    }
    return own | settings


def _title(name: str) -> str:
    return FIELDS[name].title.lower() if name in FIELDS else name.replace("_", " ")


def _text(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case tuple() | list():
            return " + ".join(str(each)[:12] for each in value)
        case float():
            return f"{value:g}"
        case _:
            return str(value)
