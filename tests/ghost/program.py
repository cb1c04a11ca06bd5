"""Runs trials and checks on GPUs that do not exist: `python -m tests.ghost.program IN OUT`.

IN has a list of trials, OUT gets what they showed, each as soon as it is known. One process serves
them all, because it needs seconds until it has imported what it needs.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path

warnings.simplefilter("ignore")  # a fake tensor has no address, and says so

import msgspec  # noqa: E402

from tests.ghost import checks, trained  # noqa: E402  (in this order: it must come before torch)
from tests.ghost.trials import Found, Trial  # noqa: E402


def main(source: Path, target: Path) -> None:
    """Run the trials of `source`, then the checks."""
    found = []
    for trial in msgspec.json.decode(source.read_bytes(), type=list[Trial]):
        try:
            found.append(trained.run(trial))
        except Exception as error:
            found.append(Found(error="".join(traceback.format_exception(error))[-4000:]))
    results: dict[str, str] = {}
    for name, check in checks.CHECKS.items():
        try:
            results[name] = check()
        except Exception as error:
            results[name] = "".join(traceback.format_exception(error))[-4000:]
    target.write_bytes(msgspec.json.encode({"trials": found, "checks": results}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
