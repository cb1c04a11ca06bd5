"""A supervisor whose stage `terminate` lasts one second instead of three."""

from __future__ import annotations

import sys

from engine.supervisor import stop_escalation
from engine.supervisor.__main__ import main

if __name__ == "__main__":
    stop_escalation.TERMINATE_SECONDS = 1.0
    sys.exit(main(sys.argv[1:]))
