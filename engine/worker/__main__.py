"""One worker: `python -m engine.worker RUN_DIR`, started the way torchrun starts one.

The environment holds RANK, LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE. RUN_DIR holds the spec and
the supervisor's address.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from engine.checkpoint import Position, read_manifest
from engine.events import WorkerFailed, WorkerReady
from engine.recipe_file import RecipeInfo
from engine.worker import environment
from engine.worker.loop import Loop
from engine.worker.session import WorkerSession

TRAINERS = {"torch": "engine.pytorch.trainer", "tf": "engine.tf.trainer"}
PACKAGES = {"torch": ("torch",), "tf": ("tensorflow", "keras")}

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
