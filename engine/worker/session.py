"""What one worker is in its run, and its line to the supervisor."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from engine.messages.channel import CLOSED, Alive, Flushed, Hello, connect
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import Event
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.metric_direction import direction_overrides
from engine.spec.recipe_file import RecipeInfo
from engine.spec.spec_file import read_spec
from engine.training.command_mailbox import CommandMailbox
from engine.worker import signals
from engine.worker.outbox import Outbox

_log = logging.getLogger(__name__)

ORPHANED = 77
"""Exit code of a worker whose supervisor is gone."""

SETTLE_SECONDS = 2.0
"""For so long a checkpoint waits for what came before it to be recorded."""


class WorkerSession:
    """What this process is in its run, and its line to the supervisor."""

    def __init__(self, folder: Path) -> None:
        """Call the supervisor of the run in `folder`. Raises OSError, UnreadableSpec."""
        self.folder = folder
        self.rank = int(os.environ["RANK"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.local_world_size = int(os.environ["LOCAL_WORLD_SIZE"])
        self.spec = read_spec(folder)
        self.recipe: RecipeInfo = catalog.recipe(self.spec.recipe)
        self.metric_directions: Mapping[str, str] = direction_overrides(
            self.recipe.metric_directions, self.spec.checkpoint_best
        )
        self.strategy = catalog.strategy(self.spec.strategy, self.recipe)
        self.devices = self.strategy.pool(self.spec.slots)[self.rank].devices
        self.mailbox = CommandMailbox()
        self._channel = connect(folder, Hello(self.rank))
        self._leaving = threading.Event()
        self.alive = Alive()
        self._outbox = Outbox(self._channel, self.rank, lambda: self.alive)
        threading.Thread(target=self._read, daemon=True, name="commands").start()

    def emit(self, event: Event) -> None:
        """Send an event to the supervisor; never blocks."""
        self._outbox.put(event)

    def flush(self) -> None:
        """Wait until all that was sent so far is on disk; not for ever: a disk may be full."""
        self._outbox.flush(SETTLE_SECONDS)

    def close(self) -> None:
        """Have everything sent; called last."""
        self._outbox.close(10.0)
        self._leaving.set()
        self._channel.finish()

    def load_recipe(self) -> ModuleType:
        """Import the recipe's file; call this once the framework is imported and configured.

        All that is imported by then is left out whenever garbage is looked for: half a million
        objects that stay, a quarter of a second each time, on every rank.
        """
        path = Path(self.recipe.path)
        if not self.recipe.builtin:
            sys.path.insert(0, str(path.parent))  # as if the user had run the file
        specification = importlib.util.spec_from_file_location("recipe", path)
        if specification is None or specification.loader is None:
            raise ImportError(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(specification)
        sys.modules["recipe"] = module
        specification.loader.exec_module(module)
        gc.freeze()
        return module

    def settings_for(self, function: Callable[..., Any]) -> dict[str, Setting]:
        """The spec's settings that `function` takes."""
        names = inspect.signature(function).parameters
        return {name: value for name, value in self.spec.settings.items() if name in names}

    def _read(self) -> None:
        """Pass on what the supervisor says until it is gone; then this process has no reason to
        live, unless it is leaving anyway.

        `os._exit`, because the main thread may be stuck in a collective for ever.
        """
        while True:
            try:
                message = self._channel.receive()
            except CLOSED:
                if self._leaving.is_set():
                    return
                _log.info("the supervisor is gone: exits")
                os._exit(ORPHANED)
            except msgspec.DecodeError:
                continue  # not a message of ours
            match message:
                case Stop(now=True):
                    _log.info("command %d: ends at once", message.number)
                    signals.terminate()
                case Flushed(number):
                    self._outbox.settled(number)
                case SaveCheckpoint() | EmptyCache() | Pause() | Resume() | Stop():
                    self.mailbox.post(message)
