"""A supervisor whose stage `terminate` lasts one second, and whose other waits a test may set."""

from __future__ import annotations

import os
import sys

from engine.diagnosis import deadlines
from engine.supervisor import __main__ as supervisor
from engine.supervisor import stop_escalation

START_SECONDS = "TEST_START_SECONDS"
"""The environment variable with the time of the workers to start, if that is to be short."""

LOCK_SECONDS = "TEST_LOCK_SECONDS"
"""The environment variable with the time for the supervisor before it, if that is to be short."""

if __name__ == "__main__":
    stop_escalation.TERMINATE_SECONDS = 1.0
    deadlines.START_SECONDS = float(os.environ.get(START_SECONDS, deadlines.START_SECONDS))
    supervisor.LOCK_SECONDS = float(os.environ.get(LOCK_SECONDS, supervisor.LOCK_SECONDS))
    sys.exit(supervisor.main(sys.argv[1:]))
