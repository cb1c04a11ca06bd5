"""The copy of a recipe and of its local modules in a run folder: it is what the run trains."""

from __future__ import annotations

import difflib
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from engine.files.atomic_file import sync_to_disk, sync_tree, write_atomically
from engine.files.regular_file import UnfitFile, read_regular
from engine.spec import catalog
from engine.spec.local_modules import MOST_BYTES, local_modules
from engine.spec.recipe_file import LARGEST_RECIPE, MODULES, RecipeInfo, read_recipe
from engine.spec.run_spec import RunSpec
from engine.system.program import call

RECIPE = "recipe.py"
_MOST_COMPARED_LINES = 20_000
_MOST_NAMED_FILES = 4


class KeptFile(NamedTuple):
    """A file of a run as the attempt number `attempt` and later ones began with it."""

    attempt: int
    name: str
    """Relative to the run folder."""

    body: bytes


class CopiedCode(NamedTuple):
    """What a copy holds."""

    recipe: bytes
    modules: dict[str, bytes]
    """By path relative to the recipe's folder."""


def write_copy(folder: Path, recipe: RecipeInfo) -> None:
    """Copy `recipe` and the modules beside it that it imports into a new folder, which the caller
    syncs: the file, or the copy that it is of already. A program that is not written in Python is
    not copied. Raises OSError.
    """
    if not is_copied(recipe):
        return
    code = read_copy(Path(recipe.copy).parent) if recipe.copy else _source(recipe)
    _write(folder, code, RECIPE, MODULES, sync=False)


def is_copied(recipe: RecipeInfo) -> bool:
    """Whether a run keeps a copy of `recipe`: of each recipe, and of a script in Python."""
    return not recipe.is_script or Path(recipe.path).suffix == ".py"


def recipe_of_run(folder: Path, spec: RunSpec) -> RecipeInfo:
    """Return the recipe of the run in `folder`: its copy. `path` is the file that was copied.

    A run without a copy has the recipe of its spec as it is now; `problem` may be set. A script is
    always run as it is now, because it looks for its data and modules beside itself.
    """
    if spec.is_script:
        return catalog.recipe_of(spec)
    return copied_recipe(spec, folder / RECIPE if has_copy(folder) else None)


def copied_recipe(spec: RunSpec, copy: Path | None) -> RecipeInfo:
    """Return the recipe of `spec` as its `copy` describes it; None: as its file does."""
    try:
        path, builtin = catalog.recipe_file(spec.recipe)
    except catalog.UnknownName:  # it was built into an earlier version
        path, builtin = catalog.BUILTIN_RECIPES / f"{Path(spec.recipe).name}.py", True
    return read_recipe(path, builtin=builtin, copy=copy)


def has_copy(folder: Path) -> bool:
    """Whether there is a copy; an empty one was lost, for example in a power cut."""
    try:
        return (folder / RECIPE).stat().st_size > 0
    except OSError:
        return False


def copied_modules(folder: Path) -> dict[str, Path]:
    """Return the files of the copied modules, by their path relative to the recipe's folder."""
    return _files(folder / MODULES)


def changes(folder: Path, recipe: RecipeInfo) -> str:
    """Return in what the file of `recipe` and its modules differ from the copy in `folder`.

    Such as `mine.py: 3 lines changed, nets.py: new`. Empty: in nothing, or one of both cannot be
    read (any more). Modules are not compared if the copy is an older one, which has none.
    """
    try:
        now, copy = _source(recipe), read_copy(folder)
    except OSError:
        return ""
    name = Path(recipe.path).name
    before, after = {name: copy.recipe}, {name: now.recipe}
    if copy.modules or before != after:
        before |= copy.modules
        after |= now.modules
    texts = {each: _difference(before.get(each), after.get(each)) for each in before | after}
    found = [f"{each}: {text}" for each, text in texts.items() if text]
    if (more := len(found) - _MOST_NAMED_FILES) > 1:
        found[_MOST_NAMED_FILES:] = [f"{more} more files"]
    return ", ".join(found)


def changed_files(folder: Path, kept: Iterable[KeptFile]) -> list[str]:
    """Return the files of the copy in `folder` that are not what the newest attempt began with.

    `kept` is sorted by attempt. The files of an earlier attempt are not changed ones if all are of
    the same attempt: a change of the recipe may have been undone. Raises OSError.
    """
    states: list[dict[str, bytes]] = [{}]
    for _, files in groupby(kept, key=lambda file: file.attempt):
        code = {file.name: file.body for file in files if is_code(file.name)}
        states.append(states[-1] | code)
    now = {name: _content(folder / name) for name in states[-1]}
    found = [[name for name in now if now[name] != state.get(name, b"")] for state in states[1:]]
    return sorted(found[-1]) if found and all(found) else []


def copy_problem(folder: Path, kept: Iterable[KeptFile]) -> str:
    """Return in a sentence which files `changed_files` finds; empty: none. Raises OSError."""
    if not (changed := changed_files(folder, kept)):
        return ""
    if (more := len(changed) - _MOST_NAMED_FILES) > 1:
        changed[_MOST_NAMED_FILES:] = [f"{more} more files"]
    return (
        f"The files of run {folder.name} are not the ones that its last attempt trained: "
        f"{', '.join(changed)} in {folder}. `{call(f'fsck {folder.name} --repair')}` restores "
        "them, and keeps the changed ones; then the run can go on."
    )


@contextmanager
def replaced_copy(folder: Path, recipe: RecipeInfo, attempt: int) -> Iterator[None]:
    """Replace the copy by the file of `recipe` as it is now, for a body that starts `attempt`.

    The old copy is kept as `recipe.before-<attempt>.py` and `modules.before-<attempt>`; it is
    restored if the body raises. Raises OSError.
    """
    now = _source(recipe)
    _write(folder, read_copy(folder), _recipe_before(attempt), _modules_before(attempt))
    try:
        _write(folder, now, RECIPE, MODULES)
        yield
    except BaseException:
        restore_copy(folder, attempt)
        raise


def restore_copy(folder: Path, attempt: int) -> bool:
    """Restore the copy from before attempt number `attempt`; return False if none was kept.

    Raises OSError.
    """
    recipe = folder / _recipe_before(attempt)
    if not recipe.exists():
        return False
    _replace_folder(folder / _modules_before(attempt), folder / MODULES)
    recipe.replace(folder / RECIPE)  # last: while it exists, there is something to restore
    sync_to_disk(folder)
    return True


def copy_to(folder: Path, new: Path, attempt: int) -> None:
    """Give the run folder `new` the copy in `folder`, and those of the attempts up to `attempt`.

    The caller syncs them. Raises OSError.
    """
    _write(new, read_copy(folder), RECIPE, MODULES, sync=False)
    for number, recipe in older_copies(folder).items():
        modules = _read_modules(folder / _modules_before(number))
        kept = min(number, attempt + 1)
        code = CopiedCode(read_regular(recipe, LARGEST_RECIPE), modules)
        _write(new, code, _recipe_before(kept), _modules_before(kept), sync=False)
        if number > attempt:
            return  # it is the one that the attempt `attempt` trained


def code_of_attempt(folder: Path, attempt: int) -> CopiedCode:
    """Return the copy in `folder` that attempt number `attempt` trained. Raises OSError."""
    for number, recipe in older_copies(folder).items():
        if number > attempt:
            modules = _read_modules(folder / _modules_before(number))
            return CopiedCode(read_regular(recipe, LARGEST_RECIPE), modules)
    return read_copy(folder)


def copy_of_attempt_to(folder: Path, new: Path, attempt: int) -> None:
    """Give the folder `new` the copy in `folder` that attempt number `attempt` trained, if any.

    Raises OSError.
    """
    if has_copy(folder):
        _write(new, code_of_attempt(folder, attempt), RECIPE, MODULES, sync=False)


def older_copies(folder: Path) -> dict[int, Path]:
    """Return the files of the earlier recipes of a run, by the attempt that replaced them.

    Example: the key of `recipe.before-3.py` is 3. Ascending order.
    """
    found = {
        int(number): path
        for path in folder.glob("recipe.before-*.py")
        if (number := path.stem.rpartition("-")[2]).isdecimal()
    }
    return dict(sorted(found.items()))


def _source(recipe: RecipeInfo) -> CopiedCode:
    """Read the recipe as it is now. Raises OSError."""
    path = Path(recipe.path)
    content = read_regular(path, LARGEST_RECIPE, follow_links=True)
    return CopiedCode(content, {} if recipe.builtin else local_modules(path, content))


def read_copy(folder: Path) -> CopiedCode:
    """Return the copy in a run folder. Raises OSError."""
    return CopiedCode(
        read_regular(folder / RECIPE, LARGEST_RECIPE), _read_modules(folder / MODULES)
    )


def is_code(name: str) -> bool:
    """Whether `name`, relative to a run folder, is a file of a copy."""
    if name == RECIPE:
        return True
    first, *others = name.split("/")  # others may have crafted the store that has this name
    is_plain = all(part and part not in (".", "..") for part in others)
    has_others = any(character in name for character in "\\:\0")
    return first == MODULES and name.endswith(".py") and is_plain and not has_others


def _content(path: Path) -> bytes | None:
    """Return what a file of a copy holds; nothing if it is not there, None if it is none of ours.

    Raises OSError.
    """
    try:
        return read_regular(path, LARGEST_RECIPE)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (UnfitFile, IsADirectoryError):
        return None


def _read_modules(modules: Path) -> dict[str, bytes]:
    return {path: read_regular(file, MOST_BYTES) for path, file in _files(modules).items()}


def _files(modules: Path) -> dict[str, Path]:
    return {file.relative_to(modules).as_posix(): file for file in sorted(modules.rglob("*.py"))}


def _write(
    folder: Path, code: CopiedCode, recipe_name: str, modules_name: str, *, sync: bool = True
) -> None:
    """Write the modules, then the recipe; a crash in between leaves the old recipe."""
    new = folder / f".{modules_name}.{secrets.token_hex(3)}.tmp"
    try:
        for path, content in code.modules.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(content)
        if sync and new.exists():
            sync_tree(new)
        _replace_folder(new, folder / modules_name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    write_atomically(folder / recipe_name, code.recipe, sync=sync)


def _replace_folder(new: Path, folder: Path) -> None:
    """Rename `new` to `folder`, in the place of what is there. Remove that if there is no `new`."""
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(3)}.tmp")
    if folder.exists():
        folder.rename(old)
    if new.exists():
        new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _recipe_before(attempt: int) -> str:
    return f"recipe.before-{attempt}.py"


def _modules_before(attempt: int) -> str:
    return f"modules.before-{attempt}"


def _difference(before: bytes | None, after: bytes | None) -> str:
    """Return in words in what a file differs; empty: in nothing. None: it is not there."""
    if before == after:
        return ""
    if before is None or after is None:
        return "new" if before is None else "no longer imported"
    old, new = before.splitlines(), after.splitlines()
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    if max(len(old), len(new)) > _MOST_COMPARED_LINES:
        return "changed"
    blocks = difflib.SequenceMatcher(None, old, new).get_opcodes()
    count = sum(max(b - a, d - c) for tag, a, b, c, d in blocks if tag != "equal")
    return f"{count} line{'s' if count > 1 else ''} changed" if count else "line ends changed"
