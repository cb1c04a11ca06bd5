"""A supervisor with an error of its own program: its loop raises once there is a file `fail`."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.runs.run_state import RunStatus
from engine.supervisor.__main__ import main
from engine.supervisor.queue_admission import QueueAdmission


def _fail(admission: QueueAdmission, _: RunStatus) -> None:
    if (Path(sys.argv[1]) / "fail").exists():
        raise ZeroDivisionError("division by zero")


if __name__ == "__main__":
    QueueAdmission.release_freed = _fail  # type: ignore[method-assign, assignment]
    sys.exit(main(sys.argv[1:]))
