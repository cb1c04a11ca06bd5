"""One worker's data about its run, and its connection to the supervisor."""

from __future__ import annotations

import contextlib
import gc
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from engine.files.save_progress import LOOKS, TimeToSave, save_progress
from engine.messages.channel import (
    BEFORE_TRAINING,
    CLOSED,
    CONNECTING,
    LOADING,
    Alive,
    Channel,
    CheckpointKept,
    Flushed,
    Hello,
    Recorded,
    connect,
    supervisor_pid,
)
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import Notice, WorkerEvent
from engine.processes import process_tree
from engine.processes.process import ORPHANED, bytes_read, can_enter, leave
from engine.runs import unrecorded_events
from engine.runs.checkpoints import checkpoint_files
from engine.spec import catalog
from engine.spec.device_names import devices_on, local_name
from engine.spec.field_info import Setting
from engine.spec.metric_direction import direction_overrides, with_sets
from engine.spec.recipe_copy import recipe_of_run
from engine.spec.recipe_file import FUNCTIONS, RecipeInfo
from engine.spec.spec_file import read_spec
from engine.training.command_mailbox import CommandMailbox
from engine.training.errors import TrainingFailed
from engine.worker import environment, signals
from engine.worker.event_sender import EventSender
from engine.worker.part_sender import PartSender
from engine.worker.recipe_import import RecipeImports

_log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
"""A checkpoint waits until all earlier events are durable, but no longer than this for a supervisor
that takes none of them: its disk may be full."""

CLOSE_SECONDS = 600.0
"""A worker that has done its work keeps its last events as long for a supervisor that takes none.
If the supervisor ends, so does the worker."""

CONNECT_SECONDS = 20.0
"""Time for a new worker to find its supervisor, while that lives."""

NOTICE_SECONDS = 2.0
"""Longest time between the moments at which two ranks notice that the supervisor is gone."""


class WorkerSession:
    """The `Session` of `engine.training.protocols`, over a channel to the supervisor."""

    def __init__(self, folder: Path, terminate: Callable[[], None] = signals.terminate) -> None:
        """Connect to the supervisor of the run in `folder`. Raises OSError, UnreadableSpec.

        `terminate` is called, from a thread, when the supervisor ends this worker at once.
        """
        self.folder = folder
        self._terminate = terminate
        self.rank = int(os.environ["RANK"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.local_world_size = int(os.environ["LOCAL_WORLD_SIZE"])
        self.spec = read_spec(folder)
        if devices := os.environ.get(environment.DEVICES):
            self.spec = msgspec.structs.replace(self.spec, devices=tuple(devices.split(",")))
        self.asked_accumulation = self.spec.accumulation
        """What the spec asks for; `spec` of this session has what is in force."""

        if accumulation := os.environ.get(environment.ACCUMULATION):
            self.spec = msgspec.structs.replace(self.spec, accumulation=int(accumulation))
        self.recipe: RecipeInfo = recipe_of_run(folder, self.spec)
        self._imports: RecipeImports | None = None
        self.metric_directions: Mapping[str, str] = direction_overrides(
            self.recipe.metric_directions, self.spec.checkpoint_best, self.spec.early_stopping
        )
        self.strategy = catalog.strategy(self.spec.strategy, self.recipe)
        self.plan = self.strategy.pool(self.spec.slots)[self.rank]
        self.devices = tuple(map(local_name, self.plan.devices))
        self.machine_devices = devices_on(self.plan.machine, self.spec.devices)
        """The devices of the run on this machine."""

        self.mailbox = CommandMailbox()
        self._channel = _connect(folder, self.rank)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._channel.close)
        is_spread = self.local_world_size != self.world_size
        is_first = bool(self.plan.machine) and self.local_rank == 0
        is_shared = bool(os.environ.get(environment.SHARED))
        sender = PartSender(self._channel, sends=is_first, is_shared=is_shared)
        self.part_sender = sender if is_spread else None
        self._leaving = threading.Event()
        self._orphaned = threading.Event()
        self._checkpoint: Path | None = None
        self.alive = Alive()
        self.before_end: Callable[[], None] = lambda: None
        """Called, in a thread, when the supervisor ends this worker at once."""

        self._loaded = 0
        self._sender = EventSender(self._channel, self.rank, self._sign_of_life)
        threading.Thread(target=self._read, daemon=True, name="commands").start()

    def add_validation_sets(self, prefixes: Sequence[str]) -> None:
        """Let the metrics whose names begin with one of `prefixes` have the direction of the rest.

        Every rank calls this before its training begins.
        """
        self.metric_directions = with_sets(self.metric_directions, prefixes)

    def load(self, size: int) -> None:
        """Note that `size` more bytes of a checkpoint are in place; 0: the loading begins."""
        self._loaded += size
        self.alive = Alive(LOADING, self._loaded)

    def _sign_of_life(self) -> Alive:
        alive = self.alive
        if alive.doing != LOADING:
            return alive
        # TensorFlow reads all of a checkpoint in one call: the system knows how far it is.
        return Alive(LOADING, alive.place + bytes_read() // 2**20)

    @contextlib.contextmanager
    def connecting(self) -> Iterator[None]:
        """Say that the ranks connect their GPUs in this context, which a broken link lets wait."""
        before, self.alive = self.alive, Alive(CONNECTING)
        yield
        self.alive = before

    def emit(self, event: WorkerEvent) -> None:
        """Send an event to the supervisor; never blocks."""
        self._sender.put(event)

    def flush(self) -> Callable[[], bool]:
        """See `engine.training.protocols.Session`."""
        number = self._sender.request_flush()
        return lambda: self._sender.wait_for_flush(number, FLUSH_SECONDS)

    @property
    def is_orphaned(self) -> bool:
        """Whether the supervisor is gone."""
        return self._orphaned.is_set()

    def save_unrecorded(self, checkpoint: Path, *, expected: bool = False) -> None:
        """Without a supervisor, write the events that it may not have recorded to `checkpoint`.

        `close` does that once more. `expected`: another rank knows that the supervisor is gone.
        Raises OSError.
        """
        self._checkpoint = checkpoint
        if expected:
            self._orphaned.wait(NOTICE_SECONDS)
        if self.is_orphaned and checkpoint.is_dir():
            self.keep_unrecorded(checkpoint)

    def keep_unrecorded(self, checkpoint: Path) -> None:
        """Write the events that may not be durable in the store to `checkpoint`. Raises OSError."""
        attempt = int(os.environ.get(environment.ATTEMPT, "0"))
        unrecorded_events.write(checkpoint, attempt, self.rank, self._sender.unrecorded())

    def close(self) -> None:
        """Send the waiting events, and close the connection; called last."""
        self._sender.close(CLOSE_SECONDS)
        if self._checkpoint is not None:
            with contextlib.suppress(OSError):  # the disk is full, or the folder was deleted
                self.save_unrecorded(self._checkpoint)
        self._leaving.set()
        self._channel.end_sending()

    def load_recipe(self) -> ModuleType:
        """Import the copy of the recipe, after the framework has been imported and configured.

        Exclude the objects that exist then from garbage collection. There are half a million, they
        are never freed, and each collection would take a quarter of a second on every rank.
        """
        os.environ[environment.RUN_FOLDER] = str(self.folder)
        folder = Path(self.recipe.path).parent
        if self.recipe.copy and self.rank == 0 and not (self.recipe.builtin or can_enter(folder)):
            text = f"The folder {folder} is gone or closed: the run trains its copy of the recipe."
            self.emit(Notice(text, self.rank))
        self._imports = RecipeImports(self.recipe)
        module = self._imports.import_recipe()
        check_settings(self.spec.settings, module)
        gc.freeze()
        return module

    def report_other_modules(self) -> None:
        """Name the modules of the user that were imported, but of which the run has no copy."""
        if self.rank == 0 and self._imports and (text := self._imports.notice_of_others()):
            self.emit(Notice(text, self.rank))

    def settings_for(self, function: Callable[..., Any]) -> dict[str, Setting]:
        """Return the settings of the spec that are parameters of `function`."""
        names = _parameters(function)
        return {name: value for name, value in self.spec.settings.items() if name in names}

    def _read(self) -> None:
        """Pass on the supervisor's messages until the connection ends.

        A worker that has closed its session exits by itself then.
        """
        while True:
            try:
                message = self._channel.receive()
            except CLOSED:
                if self._leaving.is_set():
                    return
                self._save_and_leave()
                return
            except msgspec.DecodeError:
                continue  # a message of another version
            match message:
                case Stop(now=True):
                    _log.info("command %d: ends at once", message.number)
                    with contextlib.suppress(Exception):  # a full disk: it ends nevertheless
                        self.before_end()
                    self._terminate()
                case Flushed(number):
                    self._sender.flushed(number)
                case Recorded(number):
                    self._sender.recorded(number)
                case CheckpointKept() if self.part_sender:
                    self.part_sender.kept(message)
                case SaveCheckpoint() | EmptyCache() | Pause() | Resume() | Stop():
                    self.mailbox.post(message)

    def _save_and_leave(self) -> None:
        """Let all ranks save a checkpoint and end, as for a Stop; end this process if they do not.

        While a save gets on, it is not given up.

        It leaves without exit handlers, because the main thread may be blocked in a collective.
        """
        seconds = self.spec.orphan_seconds
        has_begun = self.alive.doing not in BEFORE_TRAINING  # there is no step to save yet
        _log.info("the supervisor is gone: leaves within %s s", seconds if has_begun else 0)
        self._sender.orphaned()
        if self.part_sender:
            self.part_sender.orphaned()
        self._orphaned.set()
        if has_begun and seconds:
            self.mailbox.post(Stop())  # the other ranks hear of it from rank 0
            limit = TimeToSave(seconds, self._save_progress)
            while (left := limit.left()) > 0:
                if self._leaving.wait(min(left, seconds / LOOKS)):
                    return
        leave(ORPHANED)

    def _save_progress(self) -> object:
        """Return what changes while this rank or another one saves."""
        alive = self.alive
        own = alive.place if alive.doing == "checkpoint" else None
        return own, save_progress(self.folder / checkpoint_files.FOLDER)


def check_settings(settings: Mapping[str, Setting], recipe: ModuleType) -> None:
    """Raise TrainingFailed if a setting is a parameter of no function of the imported recipe.

    It was read from the source of a function that a decorator has replaced, or from a branch that
    was not executed.
    """
    functions = [getattr(recipe, name, None) for name in FUNCTIONS]
    accepted = set(chain.from_iterable(map(_parameters, functions)))
    if lost := sorted(settings.keys() - accepted):
        raise TrainingFailed(
            f"The setting {lost[0]}={settings[lost[0]]!r} reaches no function of the recipe: a "
            "decorator hides the parameters of the function that has it, and needs "
            "`@functools.wraps(function)`, or the function is another one on this machine."
        )


def _parameters(function: Any) -> Iterable[str]:
    """Return the names of the parameters of a function or class; none if nothing tells them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # not callable; written in C
        return ()


def _connect(folder: Path, rank: int) -> Channel:
    """Connect to the supervisor that has started this worker. Raises OSError.

    It tries for a while: if the channel was deleted, the supervisor makes it again.
    """
    wanted = int(os.environ.get(environment.SUPERVISOR, "0"))
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            if wanted and wanted != supervisor_pid(folder):
                raise ConnectionError("the supervisor of this worker is gone")
            return connect(folder, Hello(rank))
        except OSError:
            is_gone = wanted and process_tree.stat(wanted).state in ("", "Z")
            if is_gone or time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
