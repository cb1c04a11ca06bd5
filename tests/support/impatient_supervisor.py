"""A supervisor whose stage `terminate` lasts one second instead of three, and perhaps its start."""

from __future__ import annotations

import os
import sys

from engine.diagnosis import deadlines
from engine.supervisor import stop_escalation
from engine.supervisor.__main__ import main

START_SECONDS = "TEST_START_SECONDS"
"""The environment variable with the time of the workers to start, if that is to be short."""

if __name__ == "__main__":
    stop_escalation.TERMINATE_SECONDS = 1.0
    deadlines.START_SECONDS = float(os.environ.get(START_SECONDS, deadlines.START_SECONDS))
    sys.exit(main(sys.argv[1:]))
