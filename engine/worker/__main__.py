"""One worker: `python -m engine.worker RUN_DIR`, started the way torchrun starts one.

The environment holds RANK, LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE. RUN_DIR holds the spec and
the supervisor's address.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from engine import catalog
from engine.channel import CLOSED, Channel, Hello, connect
from engine.checkpoint import Position, read_manifest
from engine.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.events import Event, WorkerFailed, WorkerReady
from engine.recipe_file import RecipeInfo
from engine.spec import Setting
from engine.spec_file import read_spec
from engine.worker import environment
from engine.worker.loop import Loop
from engine.worker.mailbox import Mailbox
from engine.worker.outbox import Outbox

TRAINERS = {"torch": "engine.pytorch.trainer", "tf": "engine.tf.trainer"}
PACKAGES = {"torch": ("torch",), "tf": ("tensorflow", "keras")}

ORPHANED = 77
"""Exit code of a worker whose supervisor is gone."""

_LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "connectFullMesh",
    "NCCL communicator was aborted",
    "remote process exited",
    "Socket closed",
)
"""What gloo, NCCL and gRPC say when another rank went away."""


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
        self.strategy = catalog.strategy(self.spec.strategy, self.recipe)
        self.devices = self.strategy.pool(self.spec.devices)[self.rank].devices
        self.mailbox = Mailbox()
        self.recipe_module: ModuleType = ModuleType("recipe")
        channel = connect(folder, Hello(self.rank))
        threading.Thread(
            target=_read_commands, args=(channel, self.mailbox), daemon=True, name="commands"
        ).start()
        self._outbox = Outbox(channel, self.rank)

    def emit(self, event: Event) -> None:
        """Send an event to the supervisor; never blocks."""
        self._outbox.put(event)

    def close(self) -> None:
        """Have everything sent."""
        self._outbox.close(10.0)

    def load_recipe(self) -> ModuleType:
        """Import the recipe's file; call this once the framework is configured."""
        path = Path(self.recipe.path)
        if not self.recipe.builtin:
            sys.path.insert(0, str(path.parent))  # as if the user had run the file
        specification = importlib.util.spec_from_file_location("recipe", path)
        if specification is None or specification.loader is None:
            raise ImportError(f"{path} cannot be imported")
        self.recipe_module = importlib.util.module_from_spec(specification)
        sys.modules["recipe"] = self.recipe_module
        specification.loader.exec_module(self.recipe_module)
        return self.recipe_module

    def settings_for(self, function: Callable[..., Any]) -> dict[str, Setting]:
        """The spec's settings that `function` takes."""
        names = inspect.signature(function).parameters
        return {name: value for name, value in self.spec.settings.items() if name in names}


def main(folder: Path) -> int:
    """Train as one rank of the run in `folder`; the exit code."""
    faulthandler.enable()
    session = WorkerSession(folder)
    try:
        room = importlib.import_module(TRAINERS[session.strategy.framework])
        trainer = room.build(session, session.strategy)
        position = _restore(trainer, folder)
        session.emit(
            WorkerReady(session.rank, session.devices, _versions(session.strategy.framework))
        )
        Loop(trainer, session, position).run()
        trainer.close()
    except BaseException as error:  # a recipe may even raise SystemExit
        account = _account(session, error)
        print(account.traceback, end="", file=sys.stderr)
        session.emit(account)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        session.close()
    return 0


def _restore(trainer: Any, folder: Path) -> Position:
    name = os.environ.get(environment.RESUME)
    if not name:
        return Position()
    checkpoint = folder / "checkpoints" / name
    trainer.restore(checkpoint)
    return read_manifest(checkpoint).position


def _read_commands(channel: Channel, mailbox: Mailbox) -> None:
    """Pass commands on until the supervisor is gone; then this process has no reason to live.

    `os._exit`, because the main thread may be stuck in a collective for ever.
    """
    while True:
        try:
            message = channel.receive()
        except CLOSED:
            os._exit(ORPHANED)
        except msgspec.DecodeError:
            continue  # not a message of ours
        if isinstance(message, SaveCheckpoint | EmptyCache | Pause | Resume | Stop):
            mailbox.post(message)


def _versions(framework: str) -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in PACKAGES[framework]}


def _account(session: WorkerSession, error: BaseException) -> WorkerFailed:
    """What went wrong, with the recipe's line where it is the recipe's doing."""
    text = str(error).strip()
    first_line = text.splitlines()[0] if text else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if _is_users(frame.filename, session.recipe)]
        where = f"{ours[-1].filename}:{ours[-1].lineno}" if ours else ""
    return WorkerFailed(
        rank=session.rank,
        message=f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__,
        where=where,
        traceback="".join(traceback.format_exception(error)),
        lost_peer=any(phrase in text for phrase in _LOST_PEER),
    )


def _is_users(filename: str, recipe: RecipeInfo) -> bool:
    path = Path(filename)
    if path == Path(recipe.path):
        return True
    return (
        not recipe.builtin
        and path.is_relative_to(Path(recipe.path).parent)
        and ("site-packages" not in path.parts)
    )


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    # Frameworks' own exit handlers have been seen to hang; everything of ours is flushed by now.
    os._exit(code)
