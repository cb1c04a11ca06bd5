"""Runs a script in a process that a template has forked, as `python script words...` does.

For scripts that are not about how a framework is imported. What `sitecustomize` does at the start
of Python, and what happens at its end, is done here.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
from pathlib import Path

PACKAGES = "TEST_PACKAGES"
"""Names a folder of packages for the script."""


def run() -> int:
    """Run the script that the arguments name, and return its exit code."""
    script, *words = sys.argv[1:]
    sys.argv[:] = [script, *words]
    sys.orig_argv[:] = [sys.executable, script, *words]
    sys.path.insert(0, os.environ[PACKAGES])
    if (start := Path(os.environ[PACKAGES], "sitecustomize.py")).exists():
        runpy.run_path(str(start))
    sys.path.insert(0, str(Path(script).parent))
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    return code


if __name__ == "__main__":
    sys.exit(run())
