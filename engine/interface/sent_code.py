"""A recipe or script in a message: collected on one side, kept on the other one."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from engine.files.atomic_file import sync_tree
from engine.files.regular_file import LARGEST_JSON, UnfitFile, read_regular
from engine.interface.values import Code
from engine.scripts.command import script_of
from engine.spec import recipe_copy
from engine.spec.local_modules import MOST_BYTES, MOST_FILES, local_modules
from engine.spec.recipe_file import LARGEST_RECIPE, RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.system import paths

FOLDER = "received"
"""The folder, in the data folder, of the recipes and scripts that came from other machines."""


LONGEST_NAME = 1000
"""Characters of a path below a folder."""


class UnfitCode(ValueError):
    """It cannot be sent, or what was sent cannot be kept; the text is a sentence."""


def code_of(recipe: RecipeInfo) -> Code | None:
    """Return the file of `recipe` and its local modules; None for one that every Traindeck has.

    Raises OSError.
    """
    return None if recipe.builtin else code_in(Path(recipe.path))


def script_code(command: Sequence[str], folder: Path) -> tuple[Code, int]:
    """Return the script that `command` starts in `folder`, and its place among the words.

    Raises OSError, and UnfitCode if it is no Python file that a word names.
    """
    script = script_of(command, folder)
    at = [number for number, word in enumerate(command) if folder / word == script]
    if script.suffix != ".py" or not at:
        raise UnfitCode(
            f"{script} is not a Python script that the command names, and only such a one goes to "
            "another machine by itself, with the modules beside it that it imports: copy its "
            "folder there."
        )
    return code_in(script), at[0]


def code_in(path: Path) -> Code:
    """Return the recipe or script `path` with its local modules. Raises OSError, UnfitCode."""
    content, left_out = read_regular(path, LARGEST_RECIPE, follow_links=True), list[str]()
    modules = local_modules(path, content, left_out)
    if left_out:
        raise UnfitCode(
            f"{left_out[0]}, which {path.name} imports, cannot be sent: at most {MOST_FILES} "
            f"modules and {MOST_BYTES >> 20} MiB go to another machine. Copy its folder there."
        )
    return Code(path.name, content, modules)


def code_of_run(folder: Path, spec: RunSpec) -> Code:
    """Return the copy of its recipe that a run has kept; the file as it is now, if it has none, and
    of a script, which runs so. Raises OSError."""
    path = Path(spec.recipe)
    if spec.is_script or not recipe_copy.has_copy(folder):
        return code_in(path)
    copy = recipe_copy.read_copy(folder)
    return Code(f"{path.stem}.py", copy.recipe, copy.modules)


def keep(code: Code) -> Path:
    """Write the recipe and its modules to a folder named by their content; return its file.

    Raises UnfitCode, OSError.
    """
    files = {code.name: code.content, **code.modules}
    if len(files) != len(code.modules) + 1 or len(files) > MOST_FILES + 1:
        raise UnfitCode("The recipe was not kept: it has too many modules.")
    for name in files:
        if not is_plain(name) or not name.endswith(".py"):
            raise UnfitCode(f"The recipe was not kept: {name!r} is no name of a module.")
    if "/" in code.name:
        raise UnfitCode(f"The recipe was not kept: {code.name!r} is no name of a file.")
    folder = paths.private_folder(FOLDER) / _digest(files)
    if not _holds(folder, files):
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            for name, content in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_bytes(content)
            sync_tree(new)
            if folder.exists():  # its files were changed there; a script may have written others
                folder.rename(_free_name(folder))
            new.rename(folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    return folder / code.name


def _free_name(folder: Path) -> Path:
    numbered = (folder.with_name(f"{folder.name}.changed-{number}") for number in count(1))
    return next(each for each in numbered if not os.path.lexists(each))


def is_plain(name: str) -> bool:
    """Whether `name`, with `/`, is a path that stays in its folder on every system."""
    has_others = any(character in '\\:*?"<>|' or character < " " for character in name)
    return _stays_inside(name) and not has_others


def is_plain_here(name: str) -> bool:
    """Whether `name`, with `/`, is a path that stays in its folder on this system."""
    return _stays_inside(name) and "\0" not in name if os.name == "posix" else is_plain(name)


def _stays_inside(name: str) -> bool:
    parts = name.split("/")
    return len(name) <= LONGEST_NAME and all(part not in ("", ".", "..") for part in parts)


def _digest(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{len(name.encode())} {name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _holds(folder: Path, files: dict[str, bytes]) -> bool:
    try:
        return all(
            read_regular(folder / name, LARGEST_JSON + LARGEST_RECIPE) == content
            for name, content in files.items()
        )
    except (OSError, UnfitFile):
        return False
