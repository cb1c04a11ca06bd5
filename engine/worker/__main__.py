"""One worker: `python -m engine.worker RUN_DIR`, with the environment variables of torchrun.

RUN_DIR holds the spec and the supervisor's address.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import importlib.metadata
import logging
import os
import platform
import sys
from functools import partial
from pathlib import Path
from typing import Any

from engine.messages.events import Notice, WorkerReady
from engine.processes import children, presence
from engine.processes.control_group import ControlGroup
from engine.processes.process import ORPHANED, leave, write_stacks_when_asked
from engine.runs.checkpoints.checkpoint_files import Position, read_manifest
from engine.system import logs
from engine.system.paths import helper_stacks_file, stacks_file, workers_lock
from engine.system.streams import flush_output, write_error
from engine.training.early_end import SCRATCH
from engine.training.errors import TrainingFailed
from engine.training.loop import Loop
from engine.training.probes import memory_record
from engine.worker import debugger, environment, loader_process, output, signals
from engine.worker.cuda_libraries import loaded_mix
from engine.worker.failure_report import failure_report
from engine.worker.kept_failure import keep_hang, report_and_keep
from engine.worker.model_outline import record_data, record_model
from engine.worker.session import WorkerSession

_log = logging.getLogger("engine.worker")

TRAINERS = {"torch": "engine.pytorch.trainer", "tf": "engine.tf.entry"}
PACKAGES = {"torch": "torch", "tf": "tensorflow"}


def main(folder: Path) -> int:
    """Train as one rank of the run in `folder`, and return the exit code."""
    gc.disable()  # garbage collection takes a fifth of the time of the imports
    rank, pid = int(os.environ["RANK"]), os.getpid()
    output.survive_full_disk()
    loader_process.leave_files_in(os.environ.get(SCRATCH, ""))
    logs.start(f"rank{rank}", folder / "logs")
    is_debugged = debugger.use_terminal(rank)
    faulthandler.enable()
    _write_stacks_to(stacks_file(folder, rank))
    if group := os.environ.get(environment.CONTROL_GROUP):
        with contextlib.suppress(OSError):  # then what it starts is found by its parents alone
            ControlGroup(Path(group)).enter()
    children.adopt_orphans()  # what the recipe starts stays below this process, and ends with it
    children.Reaper().start()
    with contextlib.suppress(OSError):  # a full or read-only disk does not end the training
        presence.hold(workers_lock(folder))
    session = WorkerSession(folder)
    _log.info("connected; devices %s, strategy %s", session.devices, session.strategy.name)
    signals.ignore_in_worker()
    loader_process.become_main_module()
    trainer: Any = None
    try:
        trainer_module = importlib.import_module(TRAINERS[session.strategy.framework])
        memory_record.begin()
        trainer = trainer_module.build(session, session.strategy)
        session.before_end = partial(keep_hang, session, trainer)
        position = _restore(trainer, session)
        versions = _versions(session.strategy.framework, session.recipe.framework)
        if session.spec.interpreter:
            versions["python"] = platform.python_version()
        gc.enable()
        _log.info("ready: %s, begins at step %d", versions, position.step)
        session.emit(WorkerReady(session.rank, session.plan.devices, versions))
        if (facts := getattr(trainer, "model_facts", None)) is not None:
            record_model(folder, int(os.environ.get(environment.ATTEMPT, "0")), facts)
        if (data := getattr(trainer, "data_facts", None)) is not None:
            record_data(folder, int(os.environ.get(environment.ATTEMPT, "0")), data)
        session.report_other_modules()
        has_said_mix = _report_mix(session)
        loop = Loop(trainer, session, position)
        if is_debugged:
            breakpoint()
        loop.run()
        memory_record.write(folder, rank, getattr(trainer, "memory_record", None))
        session.report_other_modules()
        if not has_said_mix:  # TensorFlow loads some libraries in its first step
            _report_mix(session)
        trainer.close()
    except BaseException as error:  # a recipe may even raise SystemExit
        if os.getpid() != pid:
            raise  # a child that the recipe has forked ends as the recipe wants
        report = failure_report(session.rank, session.recipe, error)
        _log.info("fails: %s", report.message)
        write_error(report.traceback)
        report_and_keep(session, trainer, error, report)
        return 1
    finally:
        flush_output()
        if os.getpid() == pid:
            session.close()
            _log.info("exits")
    return ORPHANED if session.is_orphaned else 0


def _report_mix(session: WorkerSession) -> bool:
    """Say which loaded libraries are of another CUDA version; return whether there are some."""
    text = loaded_mix(PACKAGES[session.strategy.framework])
    if text and session.rank == 0:
        session.emit(Notice(text, session.rank))
    return bool(text)


def _write_stacks_to(file: Path) -> None:
    """Write the stacks of this worker to `file` when the supervisor asks for them."""
    for old in file.parent.glob(helper_stacks_file(file, 0).name.replace("0.txt", "*.txt")):
        old.unlink()  # of an earlier attempt: another process may have the pid in its name now
    write_stacks_when_asked(file)
    os.environ[environment.STACKS] = str(file)


def _restore(trainer: Any, session: WorkerSession) -> Position:
    """Load the checkpoint that the environment names, if any. Return the first position."""
    name = os.environ.get(environment.RESUME)
    if not name:
        return Position()
    batch_size = session.spec.batch_size
    checkpoint = session.folder / "checkpoints" / name
    saved = read_manifest(checkpoint)
    if saved.parameters not in (0, trainer.parameters):
        raise TrainingFailed(
            f"The checkpoint {name} holds a model of {saved.parameters:,} trainable parameters; "
            f"with these settings it has {trainer.parameters:,}: resume with the recipe and "
            "settings that it was saved with."
        )
    trainer.progress = session.load
    session.load(0)
    trainer.restore(checkpoint)
    return saved.position.in_batches_of(
        batch_size, saved.batch_size or batch_size, trainer.steps_per_epoch
    )


def _versions(framework: str, recipe_framework: str) -> dict[str, str]:
    """Return the versions of the framework and, if the recipe uses it, of Keras."""
    packages = {PACKAGES[framework], PACKAGES.get(recipe_framework, recipe_framework)}
    return {package: importlib.metadata.version(package) for package in sorted(packages)}


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    # The exit handlers of a framework may hang. Our own output is flushed by now.
    leave(code)
