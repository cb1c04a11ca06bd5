"""Presets: named settings of a run, in TOML files that users can share."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import tomli_w

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_toml
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import migrate_spec, without_secrets
from engine.system import paths

SUFFIX = ".toml"
LONGEST_NAME = 80
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class UnreadablePreset(Exception):
    """The preset is missing, damaged or of another version; the text is a sentence."""


def folder() -> Path:
    """Return the folder of the named presets, which need not exist."""
    return paths.home() / "presets"


def names() -> list[str]:
    """Return the names of all presets, readable or not, in alphabetical order."""
    return sorted((file.stem for file in folder().glob("*" + SUFFIX)), key=str.casefold)


def path_of(name: str) -> Path:
    """Return the file of the preset `name`, which need not exist."""
    return folder() / (name + SUFFIX)


def name_problem(name: str) -> str:
    """Return why `name` is not valid, in a sentence; empty when it is."""
    if not name.strip() or name != name.strip():
        return "A preset needs a name without spaces around it."
    if len(name) > LONGEST_NAME:
        return f"The name of a preset has at most {LONGEST_NAME} characters, not {len(name)}."
    if found := _FORBIDDEN.search(name):
        return f"The name of a preset becomes a file name and cannot hold {found[0]!r}."
    if name.startswith(".") or name.endswith(".") or _RESERVED.fullmatch(name):
        return f"{name!r} cannot be a file name: choose another one."
    return ""


def save(name: str, spec: RunSpec) -> None:
    """Save `spec` as the preset `name`, which may exist already.

    Raises ValueError, whose text is a sentence, if the name is not valid; OSError.
    """
    if problem := name_problem(name):
        raise ValueError(problem)
    paths.private_folder(folder().name)
    write(path_of(name), spec)


def write(file: Path, spec: RunSpec) -> None:
    """Write `spec` to `file` atomically, without the values of secrets. Raises OSError."""
    stored, _ = without_secrets(spec)
    write_atomically(file, tomli_w.dumps({"run": msgspec.to_builtins(stored)}), sync=True)


def read(file: Path) -> RunSpec:
    """Return the settings in a preset or in the `spec.toml` of a run. Raises UnreadablePreset."""
    try:
        document = read_toml(file, follow_links=True)
        if "run" not in document:
            raise UnreadablePreset(f"{file} is no preset: it has no table [run].")
        run = migrate_spec(document["run"])
        known = RunSpec.__struct_fields__
        if isinstance(run, dict) and (unknown := [name for name in run if name not in known]):
            raise UnreadablePreset(
                f"The preset {file} holds {', '.join(unknown)}, which this version of Traindeck "
                "does not know. Update Traindeck, or remove these lines from the file."
            )
        return msgspec.convert(run, RunSpec)
    except OSError as error:
        why = f"{error.strerror or error}"
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or not settings
        why = str(error)
    raise UnreadablePreset(f"The preset {file} cannot be read: {why}.")


def delete(name: str) -> None:
    """Delete the preset `name`, if it exists. Raises OSError."""
    path_of(name).unlink(missing_ok=True)
