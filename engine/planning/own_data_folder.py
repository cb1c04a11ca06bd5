"""A data folder for runs that nothing is kept of."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.system.paths import HOME_VARIABLE
from engine.templates.protocol import FOLDER_VARIABLE, folder


@contextmanager
def own_data_folder(purpose: str, **variables: str) -> Iterator[Path]:
    """Let runs go to a folder of their own, which is deleted in the end; templates are shared.

    `variables` are set in the environment meanwhile.
    """
    before = dict(os.environ)
    home = Path(tempfile.mkdtemp(prefix=f"traindeck-{purpose}-"))
    changes = {FOLDER_VARIABLE: str(folder()), HOME_VARIABLE: str(home), **variables}
    os.environ.update(changes)
    try:
        yield home
    finally:
        for name in changes:
            del os.environ[name]
            if name in before:
                os.environ[name] = before[name]
        shutil.rmtree(home, ignore_errors=True)
