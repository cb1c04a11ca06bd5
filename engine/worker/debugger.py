"""Runs one rank under pdb, on a terminal that a developer names; see docs/debugging.md."""

from __future__ import annotations

import os
import sys

from engine.worker import environment


def use_terminal(rank: int) -> bool:
    """Connect stdin and stdout to the terminal that the environment names for `rank`.

    Return whether it names one. If so, `breakpoint()` works, also in the recipe. Raises OSError.
    """
    wanted, _, terminal = os.environ.get(environment.PDB, "").partition(":")
    if wanted != str(rank):
        return False
    sys.stdin = open(terminal)  # noqa: SIM115, PTH123  # for as long as the process lives
    sys.stdout = open(terminal, "w", buffering=1)  # noqa: SIM115, PTH123
    return True
