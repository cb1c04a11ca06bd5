"""Reads and writes the presets of the run form; every failure is a sentence for the user."""

from __future__ import annotations

from pathlib import Path

from engine.spec import presets
from engine.spec.presets import UnreadablePreset
from engine.spec.run_spec import RunSpec


class PresetError(Exception):
    """A preset that could not be read, written or deleted; the text is a sentence."""


def saved_presets() -> dict[str, RunSpec | PresetError]:
    """Return all presets by name, in alphabetical order; an unreadable one is a PresetError."""
    found: dict[str, RunSpec | PresetError] = {}
    for name in presets.names():
        try:
            found[name] = read_preset(presets.path_of(name))
        except PresetError as error:
            found[name] = error
    return found


def read_preset(file: Path) -> RunSpec:
    """Read a preset or the `spec.toml` of a run. Raises PresetError."""
    try:
        return presets.read(file)
    except UnreadablePreset as error:
        raise PresetError(str(error)) from error


def has_preset(name: str) -> bool:
    """Whether there is a preset with this name."""
    return not presets.name_problem(name) and presets.path_of(name).exists()


def save_preset(name: str, spec: RunSpec) -> None:
    """Save `spec` as the preset `name`; replaces a preset of that name. Raises PresetError."""
    try:
        presets.save(name, spec)
    except ValueError as error:
        raise PresetError(f"The preset was not saved. {error}") from error
    except OSError as error:
        file = presets.path_of(name)
        raise PresetError(
            f"The preset was not saved: {file} cannot be written ({error.strerror})."
        ) from error


def write_preset(file: Path, spec: RunSpec) -> None:
    """Write `spec` to any file. Raises PresetError."""
    try:
        presets.write(file, spec)
    except OSError as error:
        raise PresetError(f"{file} was not written: {error.strerror}.") from error


def delete_preset(name: str) -> None:
    """Delete the preset `name`. Raises PresetError."""
    try:
        presets.delete(name)
    except OSError as error:
        raise PresetError(f"“{name}” was not deleted: {error.strerror}.") from error
