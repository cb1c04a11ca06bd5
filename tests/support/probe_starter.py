"""Starts the environment probe twice, by a fork and by exec, as a supervisor would.

`python -m tests.support.probe_starter KIND FOLDER [confined]` writes `forked.log` and `started.log`
into FOLDER, perhaps after it has confined itself as a user's shell can do it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from engine.processes.confinement import own_confinement
from engine.processes.process import Process, module_environment
from engine.supervisor.worker_pool import _start_cold
from engine.templates.client import fork_workers
from engine.templates.forked_process import ForkedProcess
from engine.templates.kinds import KINDS, SHARED_ENVIRONMENT
from engine.templates.protocol import Fork


def confine() -> None:
    """What `ulimit`, `nice`, `umask`, `nohup` and the like do."""
    import resource

    os.nice(5)
    os.umask(0o027)
    for number, wanted in ((resource.RLIMIT_NOFILE, 900), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(number)
        resource.setrlimit(number, (wanted, hard))
    Path("/proc/self/oom_score_adj").write_text("500")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])


def main(kind: str, folder: Path) -> None:
    environment = {
        **os.environ,
        **SHARED_ENVIRONMENT,
        **KINDS[kind].environment,
        "RANK": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "KERAS_TORCH_DEVICE": "cpu",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
    }
    log = folder / "worker.log"
    request = Fork(
        "tests.support.environment_probe",
        [kind],
        module_environment(environment),
        str(folder),
        str(log),
        own_confinement(),
    )
    [forked] = fork_workers(KINDS[kind], [request])
    if not isinstance(forked, ForkedProcess):
        raise forked
    _finish(forked, log, "forked.log")
    _finish(_start_cold(request), log, "started.log")


def _finish(process: Process, log: Path, name: str) -> None:
    if code := process.wait():
        raise SystemExit(f"{name}: exit code {code}\n{log.read_text()}")
    log.rename(log.with_name(name))


if __name__ == "__main__":
    if "confined" in sys.argv[3:]:
        confine()
    main(sys.argv[1], Path(sys.argv[2]))
