"""The settings with which the attempts of a run began, as the files of its folder have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from engine.spec import presets, spec_file
from engine.spec.presets import UnreadablePreset
from engine.spec.run_spec import RunSpec


class SettingsHistory(NamedTuple):
    """The settings of a run, and those that it has had before. None: a file cannot be read."""

    now: RunSpec | None
    older: Mapping[int, RunSpec | None]
    """By the number of the attempt that replaced them, in ascending order."""


def settings_history(folder: Path) -> SettingsHistory:
    """Read the history from the folder of a run."""
    older = {attempt: _read(path) for attempt, path in spec_file.older_specs(folder).items()}
    return SettingsHistory(_read(folder / spec_file.FILE_NAME), older)


def _read(path: Path) -> RunSpec | None:
    try:
        return presets.read(path)
    except UnreadablePreset:
        return None
