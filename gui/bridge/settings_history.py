"""What was changed in the settings of a run before it went on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec

from engine.spec import presets, spec_file
from engine.spec.presets import UnreadablePreset
from engine.spec.run_spec import FIELDS, RunSpec
from gui.style.translation import translate


def edits(folder: Path) -> dict[int, str]:
    """By the number of the attempt that began with them: the changes in words, such as `strategy
    torch/single → torch/ddp`. Files that cannot be read say nothing."""
    older = spec_file.older_specs(folder)
    specs = [_read(path) for path in [*older.values(), folder / spec_file.FILE_NAME]]
    return {
        attempt: text
        for attempt, (before, after) in zip(older, pairwise(specs), strict=True)
        if before and after and (text := changes(before, after))
    }


def changes(before: RunSpec, after: RunSpec) -> str:
    """The differences in words; empty for equal ones."""
    old, new = _flat(before), _flat(after)
    return ", ".join(
        f"{_title(name)} {_said(old.get(name))} → {_said(new.get(name))}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    )


def _read(path: Path) -> RunSpec | None:
    try:
        return presets.read(path)
    except UnreadablePreset:
        return None


def _flat(spec: RunSpec) -> dict[str, object]:
    settings = spec.settings
    own = {
        name: value for name, value in msgspec.structs.asdict(spec).items() if name != "settings"
    }
    return own | settings


def _title(name: str) -> str:
    return FIELDS[name].title.lower() if name in FIELDS else name.replace("_", " ")


def _said(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return translate("RunEdits", "yes") if value else translate("RunEdits", "no")
        case tuple() | list():
            return " + ".join(str(each)[:12] for each in value)
        case float():
            return f"{value:g}"
        case _:
            return str(value)
