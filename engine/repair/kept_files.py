"""Copies of a run's settings and code in its store, from which lost files are restored."""

from __future__ import annotations

from pathlib import Path

from engine.runs.store import RunStore
from engine.spec.recipe_copy import RECIPE, copied_modules
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.system.regular_file import read_regular

LARGEST_FILE = 256 * 2**10
"""Bytes of the largest file that is kept."""

MOST_FILES = 100


def keep_files(store: RunStore, folder: Path) -> None:
    """Keep the files of the run in `folder`, for the attempt that begins.

    It leaves out what is too large, and what cannot be read. Raises sqlite3.Error.
    """
    modules = copied_modules(folder).values()
    for path in [folder / SPEC, folder / RECIPE, *modules][:MOST_FILES]:
        try:
            content = read_regular(path, LARGEST_FILE)
        except OSError:
            continue  # the attempt itself reports a file that it needs and cannot read
        if content:
            store.keep_file(path.relative_to(folder).as_posix(), content)
