"""A fast and long training that writes its step count to a file.

Files in the run's folder ask for more: `burst` for output, `spawn` for a process in a session of
its own, `slow` for a checkpoint that takes five seconds.
"""

import os
import subprocess
import time
from pathlib import Path

import torch
from torch import nn

from engine.runs.checkpoints import checkpoint_files

RUN = Path(os.environ["TRAINDECK_RUN_FOLDER"])


def model() -> nn.Module:
    return nn.Linear(4, 1)


def datasets() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    inputs = torch.randn(3200, 4, generator=torch.Generator().manual_seed(0))
    return (inputs, inputs.sum(1, keepdim=True)), (inputs[:64], inputs[:64].sum(1, keepdim=True))


steps = 0


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Squared error."""
    global steps
    if torch.is_grad_enabled():
        steps += 1
        time.sleep(0.005)
        (RUN / "counted").write_text(str(steps))
        if steps % 20 == 0 and (RUN / "burst").exists():
            (RUN / "burst").unlink(missing_ok=True)
            print(("burst " * 30 + "\n") * 5800)
        if steps % 20 == 0 and (RUN / "spawn").exists():
            (RUN / "spawn").unlink(missing_ok=True)
            subprocess.Popen(["sleep", "100000"], start_new_session=True)
    return ((outputs - targets) ** 2).mean()


publish = checkpoint_files.publish


def publish_slowly(folder: Path, position: checkpoint_files.Position, **named: object) -> object:
    """Publish a checkpoint, whose files grow meanwhile if that was asked for."""
    if (RUN / "slow").exists():
        (RUN / "slow").unlink(missing_ok=True)
        ballast = checkpoint_files.temporary_folder(folder, position.step) / "ballast"
        for size in range(10):
            time.sleep(0.5)
            ballast.write_bytes(bytes(size))
    return publish(folder, position, **named)  # type: ignore[arg-type]


checkpoint_files.publish = publish_slowly  # type: ignore[assignment]
