"""Copies of a run's settings and code in its store, from which lost files are restored."""

from __future__ import annotations

from pathlib import Path

from engine.files.regular_file import UnfitFile, read_regular
from engine.runs.store.run_store import LARGEST_FILE, RunStore
from engine.spec.recipe_copy import RECIPE, copied_modules, is_code
from engine.spec.spec_file import FILE_NAME as SPEC

MOST_FILES = 100


def keep_files(store: RunStore, folder: Path) -> None:
    """Keep the files of the run in `folder`, for the attempt that begins.

    It leaves out what is too large, and what cannot be read, and forgets what is no part of the run
    any more. Raises sqlite3.Error.
    """
    for name in {file.name for file in store.kept_files() if is_code(file.name)}:
        try:
            read_regular(folder / name, LARGEST_FILE)
        except (FileNotFoundError, NotADirectoryError, UnfitFile):
            store.forget_file(name)  # an older copy of it would pass for the present one
        except OSError:
            continue
    modules = copied_modules(folder).values()
    for path in [folder / SPEC, folder / RECIPE, *modules][:MOST_FILES]:
        try:
            content = read_regular(path, LARGEST_FILE)
        except OSError:
            continue  # the attempt itself reports a file that it needs and cannot read
        if content:
            store.keep_file(path.relative_to(folder).as_posix(), content)
