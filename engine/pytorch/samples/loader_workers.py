"""What each loader worker reads, and how one that has ended was ended, in one sentence.

A worker that crashes cannot report anything itself. So it notes the sample that it reads in memory
that it shares with the process that trains, and `faulthandler` writes its stack to a file there.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import multiprocessing.queues
import os
import re
import shutil
import signal
import struct
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils.data import get_worker_info

from engine.processes.process import signal_name
from engine.system.streams import write_error
from engine.system.units import byte_size
from engine.training.errors import TrainingFailed
from engine.worker import loader_process

CANNOT_PASS_ON = 79
"""Exit code of a loader worker that could not pass a batch on."""

END_SECONDS = 2.0
"""A worker whose connection is broken has this time to end, so that its signal is known."""

_SLOT = struct.Struct("q")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+) in (\S+)')
_SHARED_MEMORY = Path("/dev/shm")
_HINTS = {
    "SIGSEGV": " (a crash in native code)",
    "SIGABRT": " (native code called abort)",
    "SIGKILL": " (killed from outside; when memory runs out, the system does that)",
}


class LoaderWorkerEnded(TrainingFailed):
    """A loader worker that ended before its work was done."""

    def __init__(self, text: str, where: str = "") -> None:
        """`where`: file and line of the recipe; empty: unknown."""
        super().__init__(text)
        self.where = where


class LoaderWatch:
    """Watches the loader workers of one data set. Only the main thread uses it."""

    def __init__(
        self, workers: int, name_of: Callable[[int], str], owns: Callable[[Path], bool]
    ) -> None:
        """`name_of` names a sample by its index; `owns` tells whether a file is the user's code."""
        self._name_of = name_of
        self._owns = owns
        self._slots = mmap.mmap(-1, max(1, workers) * _SLOT.size)
        self._reports = [_unnamed_file() for _ in range(workers)]
        self._is_waiting = False
        self._since = 0.0
        """Since when this process reads a sample, or waits for a worker; 0: it does neither."""

        self._own = -1
        self._processes: Sequence[Any] = ()

    def __getstate__(self) -> dict[str, Any]:
        """A spawned worker shares neither the memory nor the files: it notes nothing."""
        return {"_slots": None, "_reports": []}

    def begin(self, worker: int) -> None:
        """Prepare the loader worker with this number; it calls this first."""
        loader_process.begin(worker)
        if worker < len(self._reports):
            # When it is enabled again, it does not take the signals back from PyTorch.
            faulthandler.disable()
            faulthandler.enable(self._reports[worker])
            global _report
            _report = self._reports[worker]
        multiprocessing.queues.Queue._on_queue_feeder_error = staticmethod(  # type: ignore[attr-defined]
            _end_with_error
        )

    def reads(self, index: Any) -> None:
        """Note the sample that this process reads next."""
        info = get_worker_info()
        if info is None:
            self._own, self._since = index if isinstance(index, int) else -1, time.monotonic()
        elif self._slots is not None and isinstance(index, int):
            _SLOT.pack_into(self._slots, info.id * _SLOT.size, index + 1)

    def has_read(self) -> None:
        """Note that this process has read the sample."""
        self._since = 0.0

    def reading(self, seconds: float) -> list[int]:
        """Return the samples that are read for so long: of each worker the one that it reads, or
        has read last. Any thread may call this."""
        if not self._since or time.monotonic() - self._since < seconds:
            return []
        if not self._reports:
            return [self._own] if self._own >= 0 else []
        size = len(self._reports) * _SLOT.size
        return [noted - 1 for (noted,) in _SLOT.iter_unpack(self._slots[:size]) if noted]

    def follow(self, iterator: Any) -> None:
        """Watch the workers of an iterator of a DataLoader, in the place of PyTorch.

        PyTorch raises an error at whatever line the main thread executes.
        """
        processes = getattr(iterator, "_workers", None)
        if processes is None or processes is self._processes:
            return
        self._processes = processes
        if getattr(iterator, "_worker_pids_set", False):
            with contextlib.suppress(AttributeError, ValueError):
                torch._C._remove_worker_pids(id(iterator))
                iterator._worker_pids_set = False
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGCHLD"):
            _wake_at_end_of_child(self)

    def next_of(self, iterator: Any) -> Any:
        """Return the next batch. Raises StopIteration, LoaderWorkerEnded, and what a sample raises.

        A worker that ends ends the wait at once.
        """
        self._check()
        self._is_waiting, self._since = True, time.monotonic()
        try:
            return next(iterator)
        except StopIteration:
            raise
        except _ChildEnded:
            self._check()
            raise
        except (OSError, EOFError, RuntimeError) as error:
            self._is_waiting = False
            if _sounds_broken(error):
                self._check(END_SECONDS, error)
            raise self._explained(error) from error
        finally:
            self._is_waiting, self._since = False, 0.0

    def woken(self) -> None:
        """End the wait for a batch if a worker has ended: a child of this process has."""
        if self._is_waiting and any(_has_failed(process) for process in self._processes):
            self._is_waiting = False
            raise _ChildEnded

    def _check(self, seconds: float = 0.0, cause: BaseException | None = None) -> None:
        """Raise LoaderWorkerEnded if a worker ends within `seconds` before its work is done."""
        deadline = time.monotonic() + seconds
        while True:
            for number, process in enumerate(self._processes):
                if _has_failed(process):
                    failure = self._failure(number, process.exitcode)
                    self._end_all()
                    raise failure from cause
            if time.monotonic() >= deadline:
                return
            time.sleep(0.01)

    def _failure(self, number: int, code: int) -> LoaderWorkerEnded:
        report = self._report_of(number)
        if report:
            write_error(report)
        sample = self._sample_of(number)
        if code == CANNOT_PASS_ON:
            reason = report.strip().splitlines()[-1] if report.strip() else "an error"
            return LoaderWorkerEnded(
                f"A loader worker could not pass its batch on: {reason.rstrip('.')}."
                + (_full_shared_memory() if _is_about_shared_memory(reason) else "")
            )
        signal_of = signal_name(code)
        how = f"was ended by {signal_of}{_HINTS.get(signal_of, '')}"
        if not signal_of:
            how = f"ended with exit code {code}"
        frame = self._innermost(report)
        place = f", in {frame[2]} ({Path(frame[0]).name}:{frame[1]})" if frame else ""
        while_reading = f", while it read {sample}" if sample else ""
        text = f"A loader worker {how}{while_reading}{place}."
        if signal_of == "SIGBUS":
            text += _full_shared_memory()
        where = f"{frame[0]}:{frame[1]}" if frame and self._owns(Path(frame[0])) else ""
        return LoaderWorkerEnded(text, where)

    def _end_all(self) -> None:
        """Kill the workers: they ignore SIGTERM, and may wait for one that has ended."""
        for process in self._processes:
            process.kill()

    def _explained(self, error: BaseException) -> BaseException:
        """Return `error`, or one in its place that says more."""
        text = str(error)
        if text.startswith("DataLoader timed out"):
            reading = ", ".join(filter(None, map(self._sample_of, range(len(self._processes)))))
            self._end_all()
            return TrainingFailed(
                f"No batch came from the loader workers within the timeout of the DataLoader: "
                f"they read {reading or 'no sample'}."
            )
        if _is_about_shared_memory(text):
            return TrainingFailed(
                f"A loader worker found no room for a batch.{_full_shared_memory()}"
            )
        return error

    def _sample_of(self, number: int) -> str:
        (noted,) = _SLOT.unpack_from(self._slots, number * _SLOT.size)
        return self._name_of(noted - 1) if noted else ""

    def _report_of(self, number: int) -> str:
        """Return what a worker has written at its end; empty: nothing, as after SIGKILL."""
        if number >= len(self._reports):
            return ""
        with contextlib.suppress(OSError):
            size = os.fstat(self._reports[number]).st_size
            return os.pread(self._reports[number], min(size, 2**16), 0).decode(errors="replace")
        return ""

    def _innermost(self, report: str) -> tuple[str, str, str] | None:
        """Return file, line and function of the innermost line of the user, or of any line."""
        _, found, current = report.rpartition("Current thread")
        if not found:
            current = report
        frames: list[tuple[str, str, str]] = _FRAME.findall(current.partition("\n\n")[0])
        own = [frame for frame in frames if self._owns(Path(frame[0]))]
        return next(iter(own or frames), None)


class _ChildEnded(BaseException):
    """Ends a wait from a signal handler; no code of a library may catch it."""


_report = -1
"""In a loader worker: the descriptor of its report."""

_watches: list[LoaderWatch] = []
"""Those that the handler of SIGCHLD wakes."""


def end_workers(watch: LoaderWatch, iterator: Any) -> None:
    """End the workers of an iterator of a DataLoader, and watch them no more.

    Otherwise they live as long as an exception, whose frames hold the iterator.
    """
    if watch in _watches:
        _watches.remove(watch)
    if hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def _wake_at_end_of_child(watch: LoaderWatch) -> None:
    if watch not in _watches:
        _watches.append(watch)
    previous = signal.getsignal(signal.SIGCHLD)
    if getattr(previous, "wakes", False):
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if callable(previous):
            previous(number, frame)
        for each in _watches:
            each.woken()

    handle.wakes = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGCHLD, handle)


def _has_failed(process: Any) -> bool:
    return process.exitcode not in (None, 0)


def _sounds_broken(error: BaseException) -> bool:
    """Whether `error` may come from a worker that ended while it passed a batch on."""
    return isinstance(error, OSError | EOFError) or "DataLoader worker" in str(error)


def _end_with_error(error: BaseException, _: Any) -> None:
    """End this loader worker: the batch that it could not pass on would be waited for for ever."""
    text = "".join(traceback.format_exception(error))
    if _report >= 0:
        with contextlib.suppress(OSError):
            os.write(_report, text.encode(errors="backslashreplace"))
    else:
        write_error(text)
    os._exit(CANNOT_PASS_ON)


def _is_about_shared_memory(text: str) -> bool:
    return "shared memory" in text or "/torch_" in text


def _full_shared_memory() -> str:
    """Return a sentence on the memory through which workers pass batches, with its size."""
    size = ""
    with contextlib.suppress(OSError):
        found = shutil.disk_usage(_SHARED_MEMORY)
        size = f" ({byte_size(found.total)}, {byte_size(found.free)} free)"
    return (
        f" Loader workers pass batches through {_SHARED_MEMORY}{size}: if that was full, use fewer "
        "loader workers or smaller batches, or give the container more of it (--shm-size)."
    )


def _unnamed_file() -> int:
    """Return a descriptor of a file that has no name, and that a forked process inherits."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("loader worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def each_next(watch: LoaderWatch, iterator: Any) -> Iterator[Any]:
    """Yield the batches of an iterator of a DataLoader that `watch` follows."""
    watch.follow(iterator)
    while True:
        try:
            batch = watch.next_of(iterator)
        except StopIteration:
            return
        yield batch
