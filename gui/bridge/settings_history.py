"""How the settings of a run differ between its attempts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec

from engine.spec import presets, spec_file
from engine.spec.presets import UnreadablePreset
from engine.spec.run_spec import FIELDS, RunSpec
from engine.system import paths
from gui.bridge.machines.machines import place_of
from gui.style.translation import translate


def run_edits(run_id: str) -> dict[int, str]:
    """Return the `edits` in the folder of a run; none for one of another machine."""
    return {} if place_of(run_id)[0] else edits(paths.run_folder(run_id))


def edits(folder: Path) -> dict[int, str]:
    """Return the changes in words, such as `strategy torch/single → torch/ddp`, by the number of
    the attempt that began with them. Files that cannot be read are left out."""
    older = spec_file.older_specs(folder)
    specs = [_read(path) for path in [*older.values(), folder / spec_file.FILE_NAME]]
    return {
        attempt: text
        for attempt, (before, after) in zip(older, pairwise(specs), strict=True)
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


def _text(value: object) -> str:
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
