"""Runs a module for which warnings are errors: `python -m tests.support.strict_program MODULE ...`.

A process that a template has forked cannot get the option `-W`.
"""

from __future__ import annotations

import runpy
import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", DeprecationWarning)
    _, module, *arguments = sys.argv
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
