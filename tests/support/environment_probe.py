"""A worker that writes down everything in its process that its code could depend on.

`python -m tests.support.environment_probe KIND` imports what a worker of this kind of template
imports, and prints the facts as the last line of its output, as JSON.
"""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import decimal
import faulthandler
import fcntl
import gc
import importlib
import json
import locale
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

TRAINERS = {
    "torch": ("engine.pytorch.trainer",),
    "keras-torch": ("engine.pytorch.trainer", "keras"),
    "tensorflow": ("engine.tf.entry", "tensorflow", "engine.tf.trainer"),
}

PROC_FILES = ("limits", "oom_score_adj", "cgroup", "coredump_filter", "timerslack_ns", "comm")


def process_facts() -> dict[str, Any]:
    """What the system knows of this process."""
    import psutil

    own = psutil.Process()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    names = ("Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "Umask", "NoNewPrivs", "Seccomp")
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    return {
        **{name: status[name].strip() for name in (*names, "CapEff", "Cpus_allowed_list")},
        **{name: Path("/proc/self", name).read_text() for name in PROC_FILES},
        "affinity": sorted(os.sched_getaffinity(0)),
        "nice": os.nice(0),
        "ionice": list(map(int, own.ionice())),
        "scheduler": os.sched_getscheduler(0),
        "leads its group": os.getpgrp() == os.getpid(),
        "descriptors": _descriptors(),
        "modes": [fcntl.fcntl(number, fcntl.F_GETFL) for number in (0, 1, 2)],
        "names of threads": sorted(
            {(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()}
        ),
        "command line": " ".join(own.cmdline()),
        "getenv": {name: str(libc.getenv(name.encode())) for name in os.environ},
        "dumpable": libc.prctl(3, 0, 0, 0, 0),
        "death signal": _parent_death_signal(libc),
    }


def python_facts() -> dict[str, Any]:
    """What the interpreter knows."""
    main = sys.modules["__main__"]
    streams = {
        name: [stream.encoding, stream.errors, stream.line_buffering, stream.write_through]
        for name in ("stdin", "stdout", "stderr")
        if (stream := getattr(sys, name))
    }
    return {
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "flags": repr(sys.flags),
        "warnoptions": sys.warnoptions,
        "xoptions": sys._xoptions,
        "prefix": [sys.executable, sys.prefix, sys.exec_prefix],
        "main": [
            main.__name__,
            main.__file__,
            main.__package__,
            main.__spec__ and main.__spec__.name,
            type(main.__loader__).__name__,
        ],
        "streams": streams,
        "locale": [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()],
        "time zone": [*time.tzname, time.timezone],
        "temporary folder": tempfile.gettempdir(),
        "warnings": [str(each) for each in warnings.filters],
        "loggers": _loggers(),
        "garbage collection": [gc.isenabled(), *gc.get_threshold()],
        "faulthandler": faulthandler.is_enabled(),
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "hooks": [
            getattr(sys, name).__module__
            for name in ("excepthook", "displayhook", "breakpointhook")
        ],
        "signals": {number: str(signal.getsignal(number)) for number in signal.valid_signals()},
        "wakeup": signal.set_wakeup_fd(-1),
        "threads": [thread.name for thread in threading.enumerate()],
        "main thread": [
            threading.current_thread() is threading.main_thread(),
            threading.main_thread().native_id == os.getpid(),
        ],
        "stack size": threading.stack_size(),
        "multiprocessing": [
            str(multiprocessing.get_start_method(allow_none=True)),
            type(multiprocessing.current_process().authkey).__name__,
            multiprocessing.current_process().name,
            str(multiprocessing.parent_process()),
        ],
        "context variables": len(contextvars.copy_context()),
        "decimal": str(decimal.getcontext()),
        "exit functions": atexit._ncallbacks(),
    }


def library_facts(kind: str) -> dict[str, Any]:
    """What the numeric libraries know."""
    import numpy as np
    import threadpoolctl

    pools = sorted(
        (pool["user_api"], pool["internal_api"], Path(pool["filepath"]).name, pool["num_threads"])
        for pool in threadpoolctl.threadpool_info()
    )
    options = {name: str(value) for name, value in np.get_printoptions().items()}
    facts: dict[str, Any] = {"pools": pools, "numpy": [np.geterr(), options]}
    if kind == "tensorflow":
        facts |= _tensorflow_facts()
    else:
        facts |= _torch_facts()
    if kind != "torch":
        facts |= _keras_facts()
    return facts


def _torch_facts() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    return {
        "torch threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "parallel": torch.__config__.parallel_info(),
        "defaults": [str(torch.get_default_dtype()), str(torch.get_default_device())],
        "gradients": [torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
        "deterministic": [
            torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.mkldnn.enabled,
            torch.get_flush_denormal() if hasattr(torch, "get_flush_denormal") else None,
        ],
        "cuda": [torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork()],
        "sum": torch.arange(1000.0).sum().item(),
    }


def _tensorflow_facts() -> dict[str, Any]:
    tf = importlib.import_module("tensorflow")
    threading_options = tf.config.threading
    return {
        "tensorflow threads": [
            threading_options.get_intra_op_parallelism_threads(),
            threading_options.get_inter_op_parallelism_threads(),
        ],
        "devices": [str(device) for device in tf.config.list_physical_devices()],
        "eager": [tf.executing_eagerly(), tf.config.functions_run_eagerly()],
        "defaults": [tf.config.get_soft_device_placement(), str(tf.config.get_visible_devices())],
        "strategy": str(tf.distribute.has_strategy()),
        "jit": [tf.config.optimizer.get_jit(), str(tf.config.optimizer.get_experimental_options())],
        "sum": float(tf.reduce_sum(tf.range(1000.0))),
        "verbosity": tf.get_logger().level,
    }


def _keras_facts() -> dict[str, Any]:
    keras = importlib.import_module("keras")
    facts = [
        keras.backend.backend(),
        keras.config.floatx(),
        keras.config.image_data_format(),
        keras.config.epsilon(),
        keras.config.dtype_policy().name,
        keras.config.is_interactive_logging_enabled(),
        keras.config.is_traceback_filtering_enabled(),
        str(keras.distribution.distribution()),
        hasattr(keras.wrappers, "SKLearnClassifier"),
    ]
    if keras.backend.backend() == "torch":
        core = importlib.import_module("keras.src.backend.torch.core")
        facts += [core.DEFAULT_DEVICE, str(core.get_device())]
    return {"keras": facts}


def _descriptors() -> dict[str, str]:
    """What each open descriptor is, without the numbers of sockets and pipes."""
    found = {}
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}").partition("[")[0]  # noqa: PTH115
        except OSError:
            continue  # that of the listing
    return found


def _parent_death_signal(libc: Any) -> int:
    number = ctypes.c_int()
    libc.prctl(2, ctypes.byref(number), 0, 0, 0)
    return number.value


def _loggers() -> dict[str, Any]:
    loggers = {"root": logging.getLogger()}
    for name, logger in logging.Logger.manager.loggerDict.items():
        if isinstance(logger, logging.Logger):
            loggers[name] = logger
    return {
        name: [logger.level, logger.propagate, logger.disabled, [str(h) for h in logger.handlers]]
        for name, logger in loggers.items()
    }


def main(kind: str) -> None:
    before = process_facts(), python_facts()
    for module in TRAINERS[kind]:
        importlib.import_module(module)
    facts = {
        "process before": before[0],
        "python before": before[1],
        "libraries": library_facts(kind),
        "process": process_facts(),
        "python": python_facts(),
    }
    print(json.dumps(facts, default=str))


if __name__ == "__main__":
    main(sys.argv[1])
