"""A second run that begins as a copy of another one up to one of its checkpoints."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from engine import checkpoint, paths, spec_file, store


def copy_run(folder: Path, saved: Path) -> Path:
    """A new run folder with the curves, the events and the settings of the run in `folder`, which
    is over, and with its checkpoint `saved`; not with what its workers printed.

    Raises OSError or sqlite3.Error, and then leaves nothing behind.
    """
    new = paths.create_run_folder()
    try:
        shutil.copytree(saved, new / checkpoint.FOLDER / saved.name, copy_function=_link_or_copy)
        _copy_store(folder, new)
        for older in folder.glob("spec.before-*.toml"):
            shutil.copyfile(older, new / older.name)
        shutil.copyfile(folder / "recipe.py", new / "recipe.py")
        shutil.copyfile(folder / spec_file.FILE_NAME, new / spec_file.FILE_NAME)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return new


def _link_or_copy(source: str, target: str) -> None:
    """Files of a checkpoint never change, so two may share one: weights are large."""
    try:
        os.link(source, target)
    except OSError:  # not on every disk
        shutil.copyfile(source, target)


def _copy_store(folder: Path, new: Path) -> None:
    source = f"{(folder / store.FILE_NAME).as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True)) as read,
        closing(sqlite3.connect(new / store.FILE_NAME)) as written,
    ):
        read.backup(written)
