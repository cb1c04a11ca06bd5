"""`spec.toml` in a run folder: the settings of the run, and the environment of its start."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from engine.environments.installed import installed_for, python_version_text
from engine.files.atomic_file import sync_to_disk, write_atomically
from engine.files.format_version import UNNUMBERED, FormatVersion
from engine.files.regular_file import LARGEST_TOML, read_regular, read_toml
from engine.files.toml_lines import loads_alike
from engine.processes.process import command_output
from engine.scripts.secrets import fingerprint, split_secrets, split_words
from engine.spec.recipe_copy import write_copy
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.system import paths

FILE_NAME = "spec.toml"
FORMAT = FormatVersion(1, 1)
"""The key `format`. `docs/compatibility.md` lists the versions, and when to increase it."""

_NO_CHOICE = ("precision", "fp32")
"""That of all runs of scripts, when it was the default."""

_NEWER = ("precision", "default")

_GONE = ("initial_weights",)
"""Settings that files of older versions hold, and that no version uses any more."""

_PACKAGES = ("torch", "tensorflow", "keras", "numpy", "scikit-learn")


class UnreadableSpec(Exception):
    """The spec.toml is missing or damaged; the text is a sentence."""


class SpecTooNew(UnreadableSpec):
    """Only a newer version of Traindeck can read the spec.toml."""


def write_spec(folder: Path, spec: RunSpec, recipe: RecipeInfo) -> None:
    """Write `spec.toml`, and a copy of the recipe beside it, for a new run, which the caller syncs.

    Raises OSError.
    """
    write_atomically(folder / FILE_NAME, encode_spec(spec, _environment(spec) | _origin(recipe)))
    write_copy(folder, recipe)


def encode_spec(spec: RunSpec, environment: Mapping[str, Any]) -> str:
    """Return the content of `spec.toml`."""
    document = {
        "format": str(FORMAT),
        "run": _table(spec),
        "environment": environment,
    }
    return _toml(document)


def _table(spec: RunSpec) -> dict[str, Any]:
    """Return the table [run]. Older versions do not know the precision `default`, and have fp32
    where there is none."""
    run: dict[str, Any] = msgspec.to_builtins(without_secrets(spec)[0])
    return {name: value for name, value in run.items() if (name, value) != _NEWER}


def _toml(document: dict[str, Any]) -> str:
    import tomli_w  # what a worker in another environment, which only reads, need not have

    return tomli_w.dumps(document)


def without_secrets(spec: RunSpec) -> tuple[RunSpec, dict[str, str]]:
    """Return `spec` as files may hold it, and the variables that they must not hold."""
    stored, secret = split_secrets(spec.variables, spec.stored_variables)
    taken = {*spec.variables, *spec.secret_variables}
    command, in_command = split_words(spec.command, taken)
    added, in_added = split_words((spec.resume_arguments,), taken | in_command.keys())
    secret |= in_command | in_added
    if not secret:
        return spec, {}
    replaced = msgspec.structs.replace(
        spec,
        variables=stored,
        secret_variables=tuple(dict.fromkeys((*spec.secret_variables, *secret))),
        command=command,
        resume_arguments=added[0],
    )
    return replaced, secret


def with_fingerprints(spec: RunSpec, values: Mapping[str, str]) -> RunSpec:
    """Return `spec` with the fingerprints of its secret variables, which are in `values`.

    Their key never leaves the data folder. Raises OSError.
    """
    names = [name for name in spec.secret_variables if name in values]
    if not names:
        return spec
    key = _fingerprint_key()
    found = {name: fingerprint(key, name, values[name]) for name in names}
    return msgspec.structs.replace(spec, fingerprints=spec.fingerprints | found)


def _fingerprint_key() -> bytes:
    file = paths.home() / "fingerprints.key"
    if not file.exists():
        write_atomically(file, secrets.token_bytes(32), mode=0o600)
    return read_regular(file, LARGEST_TOML)


@contextmanager
def replaced_spec(
    folder: Path, spec: RunSpec, attempt: int, recipe: RecipeInfo | None = None
) -> Iterator[None]:
    """Replace the spec of the run in `folder`, for a body that starts attempt number `attempt`.

    The old spec is kept as `spec.before-<attempt>.toml`; it is restored if the body raises.
    `recipe`: the one that the run trains from now on, if its copy is replaced too. Raises OSError,
    UnreadableSpec.
    """
    path, before = folder / FILE_NAME, _before(folder, attempt)
    document = _read(folder)
    if spec.interpreter != document["run"].get("interpreter", ""):
        origin = {key: value for key, value in document["environment"].items() if _is_origin(key)}
        document["environment"] = _environment(spec) | origin
    if recipe is not None:
        document["environment"] = _without_recipe(document["environment"]) | _origin(recipe)
    document["run"] = _table(spec)
    write_atomically(before, path.read_bytes(), sync=True)
    try:
        write_atomically(path, _toml(document), sync=True)
        yield
    except BaseException:
        restore_spec(folder, attempt)
        raise


def restore_spec(folder: Path, attempt: int) -> bool:
    """Restore the spec from before attempt number `attempt`; return False if none was kept.

    Raises OSError.
    """
    try:
        _before(folder, attempt).replace(folder / FILE_NAME)
    except FileNotFoundError:
        return False
    sync_to_disk(folder)
    return True


def older_specs(folder: Path) -> dict[int, Path]:
    """Return the files of the earlier specs of a run, by the attempt that replaced them.

    Example: the key of `spec.before-3.toml` is 3. Ascending order.
    """
    found = {
        int(number): path
        for path in folder.glob("spec.before-*.toml")
        if (number := path.stem.rpartition("-")[2]).isdecimal()
    }
    return dict(sorted(found.items()))


def spec_of_attempt(folder: Path, attempt: int) -> Path:
    """Return the file with the settings of attempt number `attempt`."""
    later = [path for number, path in older_specs(folder).items() if number > attempt]
    return later[0] if later else folder / FILE_NAME


def read_spec(folder: Path) -> RunSpec:
    """Return the spec of the run in `folder`. Raises UnreadableSpec."""
    try:
        document = _read(folder)
        document["environment"]  # the last table: if it is missing, the file is incomplete
        run = migrate_spec(document["run"])
        for name in _newer_settings(document):
            run = {other: value for other, value in run.items() if other != name}
        return msgspec.convert(run, RunSpec)
    except (KeyError, ValueError, OverflowError, RecursionError) as error:
        raise _unreadable(folder, error) from error


def stored_environment(folder: Path) -> dict[str, Any]:
    """Return the Python and the versions of the newest start of a run; empty: unknown."""
    try:
        found = _read(folder).get("environment", {})
    except UnreadableSpec:
        return {}
    return found if isinstance(found, dict) else {}


def changed_packages(folder: Path, spec: RunSpec, attempt: int) -> list[str]:
    """Return which versions of Python and packages attempt number `attempt` of a run has that the
    attempts before it did not have, such as `torch 2.13.0 (was 2.12.9)`."""
    try:
        document = read_toml(_before(folder, attempt))
    except (OSError, ValueError):
        before = stored_environment(folder)
    else:
        before = document.get("environment", {})
    found = []
    now = _environment(spec)
    old = {"Python": before.get("python", ""), **before.get("packages", {})}
    new = {"Python": now.get("python", ""), **now.get("packages", {})}
    for name, version in new.items():
        was = old.get(name, "")
        is_same = version.startswith(was) or was.startswith(version)  # or not exactly known
        if not is_same:
            found.append(f"{name} {version} (was {was})")
    return found


def newer_settings(folder: Path) -> list[str]:
    """Return the settings that only the newer Traindeck that wrote the spec knows.

    Raises UnreadableSpec.
    """
    return _newer_settings(_read(folder))


def migrate_spec(run: Any) -> Any:
    """Convert `run`, the table [run] of any version of `spec.toml`, to this version."""
    if isinstance(run, dict) and any(name in run for name in _GONE):
        run = {name: value for name, value in run.items() if name not in _GONE}
    if isinstance(run, dict) and (run.get("command") or run.get("imported_from")):
        run = {name: value for name, value in run.items() if (name, value) != _NO_CHOICE}
    if isinstance(run, dict) and "stop_on_nan" in run:
        rest = {name: value for name, value in run.items() if name != "stop_on_nan"}
        return {"on_nan": "stop" if run["stop_on_nan"] is True else "continue"} | rest
    return run


def _before(folder: Path, attempt: int) -> Path:
    return folder / f"spec.before-{attempt}.toml"


def _read(folder: Path) -> dict[str, Any]:
    try:
        document = read_toml(folder / FILE_NAME, loads=loads_alike)
        reason = _format(document).why_unreadable(FILE_NAME, FORMAT)
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from error
    if reason:
        raise SpecTooNew(f"The settings of {folder.name} cannot be read: {reason}.")
    return document


def _format(document: dict[str, Any]) -> FormatVersion:
    return FormatVersion.from_text(document["format"]) if "format" in document else UNNUMBERED


def _newer_settings(document: dict[str, Any]) -> list[str]:
    run = document.get("run")
    if _format(document) <= FORMAT or not isinstance(run, dict):
        return []  # an unknown setting is then a mistake
    return [name for name in run if name not in RunSpec.__struct_fields__]


def _unreadable(folder: Path, error: Exception) -> UnreadableSpec:
    what: object = error
    match error:
        case KeyError():
            what = f"it has no {error}"
        case FileNotFoundError():
            what = f"there is no {FILE_NAME} in {folder}"
    return UnreadableSpec(f"The settings of {folder.name} cannot be read: {what}.")


def _environment(spec: RunSpec) -> dict[str, Any]:
    """Return the versions of the run's Python and packages, without importing them."""
    installed = installed_for(spec.interpreter)
    of_ours = platform.python_version()
    found = {
        "python": python_version_text(Path(spec.interpreter)) if spec.interpreter else of_ours,
        "platform": platform.platform(),
        "packages": {name: text for name in _PACKAGES if (text := installed.version(name))},
    }
    return found | ({"interpreter": spec.interpreter} if spec.interpreter else {})


def _origin(recipe: RecipeInfo) -> dict[str, Any]:
    """Return the file of the recipe and its git commit; all keys begin with `recipe_`."""
    where = Path(recipe.path).parent
    origin: dict[str, Any] = {"recipe_path": recipe.path}
    status = command_output(
        [
            # No monitor of the repository's configuration runs, and nothing is written.
            *("git", "--no-optional-locks", "-c", "core.fsmonitor=false"),
            *("status", "--porcelain=v2", "--branch", "--", recipe.path),
        ],
        where,
    ).splitlines()
    commit = next((line.split()[-1] for line in status if line.startswith("# branch.oid ")), "")
    if commit not in ("", "(initial)"):  # no repository, or one without a commit
        origin["recipe_commit"] = commit
        origin["recipe_changed_since_commit"] = not status[-1].startswith("#")
    return origin


def _without_recipe(environment: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in environment.items() if not _is_origin(key)}


def _is_origin(key: str) -> bool:
    return key.startswith("recipe_")
