"""The process of one probe: `python probe.py NAME ARGUMENTS` prints its facts as one line of JSON.

It is started by its path, because the user's Python does not have Traindeck on its path: it uses
the standard library only.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

PROBES = Path(__file__).parent / "probes"


def main() -> None:
    """Run the probe; the facts are the only thing on standard output."""
    name, *arguments = sys.argv[1:]
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    results = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no fact
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        facts = _load(name).facts(arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    with os.fdopen(results, "w") as output:
        output.write(json.dumps(facts) + "\n")
    sys.stderr.flush()
    os._exit(0)  # a broken driver may hang or crash when its libraries are unloaded


def _load(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(
        f"traindeck_probe_{name}", PROBES / f"{name}.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _end_with_parent() -> None:
    """Standard input is a pipe that nothing is written to: it ends with the process that asks."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
