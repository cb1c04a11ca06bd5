"""All that is known of how a run came about, for `show` and for the window's overview."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from engine.facts import run_facts
from engine.facts.equivalent_command import train_command
from engine.facts.run_facts import AttemptFacts, RunFacts, read_facts
from engine.facts.settings import Described, SettingRow, setting_rows
from engine.files.regular_file import read_regular
from engine.runs.resume_rules import recipe_changes
from engine.runs.run_info import RunInfo
from engine.spec import catalog, presets, recipe_copy, spec_file
from engine.spec.presets import UnreadablePreset
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import UnreadableSpec, read_spec, stored_environment
from engine.system import paths

MOST_RUNS = 100
"""Earlier runs among which one with the same recipe is looked for."""

_WHAT_TRAINS = ("recipe", "command")
"""The setting that names the file of a recipe or of a script."""

MOST_FILES = 2000
"""Files that are counted in one folder of a run."""


class Other(msgspec.Struct, frozen=True):
    """What a run is compared with."""

    label: str
    """Such as `#40`, or `attempt 1`."""

    reason: str
    """Why this one: `parent`, `earlier settings`, `previous run of this recipe`."""

    spec: RunSpec
    recipe: RecipeInfo | None
    facts: AttemptFacts | None


class FileSize(msgspec.Struct, frozen=True):
    """An entry of the run folder."""

    name: str
    bytes: int
    files: int
    """Number of files in a folder; 0: it is a file."""

    is_whole: bool = True
    """False: there are more files than were counted."""


class RunOverview(msgspec.Struct, frozen=True):
    """What is known of one run at one time."""

    settings: list[SettingRow]
    facts: RunFacts
    environment: Mapping[str, str]
    """Python and versions as `spec.toml` has them, for a run without facts."""

    other: Other | None
    packages: list[tuple[str, str, str]]
    """Packages whose versions differ from the other run: name, version, its version; an empty
    version is none."""

    command: str
    """What repeats the run; empty: it is not known."""

    command_problem: str
    files: list[FileSize]

    @property
    def git_differs(self) -> bool:
        """Whether the other run was made of another commit."""
        own, other = self.facts.attempt, self.other and self.other.facts
        if own is None or not other or own.git is None or other.git is None:
            return False
        return own.git.commit != other.git.commit


def run_overview(info: RunInfo, device_names: Mapping[str, str] | None = None) -> RunOverview:
    """Read what is known of the run of `info`; for a thread that may wait for a disk.

    `device_names`: names of this machine's devices by id.
    """
    folder, spec = info.folder, info.spec
    facts = read_facts(folder)
    names = dict(device_names or {})
    if facts.attempt is not None:
        names |= {each.id: each.label for each in facts.attempt.devices if each.label}
    other = _other(info, facts)
    own = Described(spec, _recipe(folder, spec), names)
    compared = Described(other.spec, other.recipe, names) if other else None
    command, problem = _command(info, own.recipe)
    note = _changed_since(info)
    rows = setting_rows(own, compared)
    return RunOverview(
        [
            msgspec.structs.replace(row, note=note) if row.name in _WHAT_TRAINS else row
            for row in rows
        ],
        facts,
        {} if spec.is_imported else _environment(folder),  # that of the import tells nothing
        other,
        differing_packages(facts.attempt, other.facts if other else None),
        command,
        problem,
        folder_files(folder),
    )


def _changed_since(info: RunInfo) -> str:
    """Return that the recipe or the script has changed since the run began; empty: it has not."""
    changes = "" if info.spec.is_imported else recipe_changes(info)
    return f"the file has changed since ({changes})" if changes else ""


def differing_packages(
    own: AttemptFacts | None, other: AttemptFacts | None
) -> list[tuple[str, str, str]]:
    """Return the packages with another version: name, version, version of the other attempt."""
    if own is None or other is None:
        return []
    names = sorted({*own.packages, *other.packages})
    found = [(name, own.packages.get(name, ""), other.packages.get(name, "")) for name in names]
    return [each for each in found if each[1] != each[2]]


def folder_files(folder: Path) -> list[FileSize]:
    """Return what the folder of a run holds, largest first."""
    found = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    found.append(_folder_size(path))
                else:
                    found.append(FileSize(path.name, path.lstat().st_size, 0))
    return sorted(found, key=lambda each: (-each.bytes, each.name))


def read_diff(folder: Path, attempt: int) -> str:
    """Return the changes of the code that were not committed. Raises OSError."""
    return run_facts.read_diff(folder, attempt)


def read_recipe(folder: Path) -> str:
    """Return the copy of the recipe. Raises OSError."""
    return read_regular(folder / recipe_copy.RECIPE, 2**20).decode("utf-8", "replace")


def _folder_size(folder: Path) -> FileSize:
    size = count = 0
    for path in folder.rglob("*"):
        if count >= MOST_FILES:
            return FileSize(f"{folder.name}/", size, count, is_whole=False)
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                size, count = size + path.lstat().st_size, count + 1
    return FileSize(f"{folder.name}/", size, count)


def _environment(folder: Path) -> dict[str, str]:
    stored = stored_environment(folder)
    packages = stored.get("packages", {})
    found = {"Python": str(stored.get("python", "")), "Platform": str(stored.get("platform", ""))}
    if isinstance(packages, dict):
        found |= {str(name): str(version) for name, version in packages.items()}
    if commit := stored.get("recipe_commit"):
        changed = " (changed since)" if stored.get("recipe_changed_since_commit") else ""
        found["Commit of the recipe"] = f"{commit}{changed}"
    return {name: text for name, text in found.items() if text}


def _recipe(folder: Path, spec: RunSpec) -> RecipeInfo | None:
    try:
        return recipe_copy.recipe_of_run(folder, spec)
    except (catalog.UnknownName, OSError, ValueError):
        return None


def _command(info: RunInfo, recipe: RecipeInfo | None) -> tuple[str, str]:
    spec = info.spec
    if spec.is_imported:
        return "", ""
    if recipe is not None and not spec.is_script:
        # The recipe's file may have other defaults today.
        defaults = {field.name: field.default for field in recipe.fields}
        spec = msgspec.structs.replace(spec, settings=defaults | spec.settings)
    try:
        return train_command(spec, info.notes.tags), ""
    except catalog.UnknownName as error:
        return "", str(error)


def _other(info: RunInfo, facts: RunFacts) -> Other | None:
    """Find what to compare with: the parent, the settings before a change, or the run before."""
    if facts.parent is not None and (found := _run(facts.parent.run, "parent")):
        return found
    older = spec_file.older_specs(info.folder)
    if older:
        number, path = max(older.items())
        try:
            spec = presets.read(path)
        except UnreadablePreset:
            pass
        else:
            attempt = run_facts.read_attempt(info.folder, number - 1)
            recipe = _recipe(info.folder, spec)
            return Other(f"attempt {number - 1}", "earlier settings", spec, recipe, attempt)
    if not info.id.isdecimal():
        return None
    number = int(info.id)
    earlier = sorted((int(each) for each in paths.run_ids() if int(each) < number), reverse=True)
    for each in earlier[:MOST_RUNS]:
        found = _run(str(each), "previous run of this recipe")
        if found is None or found.spec.recipe != info.spec.recipe:
            continue
        if found.spec.is_script == info.spec.is_script:
            return found
    return None


def _run(run_id: str, reason: str) -> Other | None:
    folder = paths.run_folder(run_id)
    try:
        spec = read_spec(folder)
    except UnreadableSpec:
        return None
    return Other(f"#{run_id}", reason, spec, _recipe(folder, spec), read_facts(folder).attempt)
