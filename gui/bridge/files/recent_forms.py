"""Remembers the recipes and scripts that were used, each with what was in the form for it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QSettings

from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import migrate_spec, without_secrets

SETTING = "form/recent"
LAST = "form/last"
"""Key of the settings: the newest entry."""

TAGS = "form/tags"
MACHINE = "form/machine"

MOST = 20
"""Entries; of more, the oldest are forgotten."""


class RecentForms:
    """The newest forms by file, in the settings of the window."""

    def __init__(self, settings: QSettings) -> None:
        self._settings = settings
        self._specs = self._read()

    def files(self, *, is_script: bool) -> list[str]:
        """Return the remembered scripts, or the user's own recipes, the newest first."""
        return [
            spec.recipe
            for spec in self._specs
            if spec.is_script == is_script and "/" in spec.recipe  # not built in
        ]

    def of(self, file: str, *, is_script: bool) -> RunSpec | None:
        """Return what was in the form for a file the last time; None if it is not remembered."""
        found = (s for s in self._specs if s.recipe == file and s.is_script == is_script)
        return next(found, None)

    def last(self) -> RunSpec | None:
        """Return the form that was used last; None: there was none."""
        newest = str(self._settings.value(LAST, ""))
        return next((spec for spec in self._specs if _key(spec) == newest), None)

    def newest_recipe(self) -> RunSpec | None:
        """Return what was in the form for the recipe that was used last; None: there was none."""
        return next((spec for spec in self._specs if not spec.is_script), None)

    def tags(self) -> str:
        """Return the tags of the next run, as they were entered."""
        return str(self._settings.value(TAGS, ""))

    def machine(self) -> str:
        """Return the machine where the next run was to start; empty: this one."""
        return str(self._settings.value(MACHINE, ""))

    def remember(self, spec: RunSpec, tags: str = "", machine: str = "") -> None:
        """Remember a form as the newest one, and the tags and the machine of the next run; without
        the values of secrets, and without the name, which belongs to one run."""
        self._settings.setValue(TAGS, tags)
        self._settings.setValue(MACHINE, machine)
        self._settings.setValue(LAST, _key(spec))
        stored = replace(without_secrets(spec)[0], name="")
        others = [each for each in self._specs if _key(each) != _key(stored)]
        self._specs = [stored, *others][:MOST]
        text = msgspec.json.encode([msgspec.to_builtins(each) for each in self._specs])
        self._settings.setValue(SETTING, text.decode())

    def _read(self) -> list[RunSpec]:
        """Return the remembered forms that this version can read."""
        found = []
        try:
            entries = msgspec.json.decode(str(self._settings.value(SETTING, "[]")), type=list)
        except msgspec.DecodeError:
            return []
        for entry in entries:
            try:
                found.append(msgspec.convert(migrate_spec(entry), RunSpec))
            except (msgspec.ValidationError, ValueError, TypeError):
                continue
        return found[:MOST]


def _key(spec: RunSpec) -> str:
    return f"{'script' if spec.is_script else 'recipe'} {spec.recipe}"
