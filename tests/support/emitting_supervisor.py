"""A supervisor whose workers are `tests.support.emitting_worker`; for runs that start cold."""

from __future__ import annotations

import sys

from engine.processes.process import Process
from engine.supervisor import worker_pool
from engine.supervisor.__main__ import main
from engine.supervisor.worker_pool import _Command
from engine.templates.protocol import Fork

_start_cold = worker_pool._start_cold


def _start_emitting(command: _Command | Fork) -> Process:
    assert isinstance(command, _Command)
    return _start_cold(command._replace(module="tests.support.emitting_worker"))


if __name__ == "__main__":
    worker_pool._start_cold = _start_emitting
    sys.exit(main(sys.argv[1:]))
