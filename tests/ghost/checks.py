"""Single questions to GPUs that do not exist; each check returns what it saw, in one text."""

from __future__ import annotations

from collections.abc import Callable

from tests.ghost import trained

from tests.ghost.imagined_gpus import imagined_gpus  # isort: skip

import torch

from engine.runs.checkpoints.checkpoint_files import Position
from engine.training.errors import DevicesFull
from tests.ghost.trials import Trial

FSDP = Trial(strategy="torch/fsdp", gpus=2)


def mixed_devices() -> str:
    """Compute with tensors of two GPUs."""
    with imagined_gpus():
        try:
            torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
        except RuntimeError as error:
            return str(error)
    return "nothing"


def data_waits_for_the_model() -> str:
    """See when the data set is on the GPU: not before a step is done, and not in a pause."""
    places = []
    with trained.trainer_of(Trial(strategy="torch/single")) as (trainer, _):

        def note() -> None:
            places.append(trainer._data.first()[0].device.type)

        note()
        trainer.run_steps(Position(0, 0, 0), 1)
        note()
        trainer.run_steps(Position(0, 1, 1), 1)
        note()
        trainer.free_devices()
        note()
        trainer.restore_devices()
        note()
    return " ".join(places)


def full_card() -> str:
    """Come back from a pause to GPUs that filled up meanwhile, then to empty ones."""
    seen = []
    for trial in (Trial(strategy="torch/ddp", gpus=2), FSDP):
        with trained.trainer_of(trial) as (trainer, observer):
            trainer.run_steps(Position(0, 0, 0), 1)
            trainer.free_devices()
            used = sum(observer.device_memory().values())
            observer.limit = used + 60_000
            for _ in range(2):
                try:
                    trainer.restore_devices()
                except DevicesFull as error:
                    seen.append("full" if "stays paused: " in str(error) else str(error))
                seen.append(str(sum(observer.device_memory().values()) - used))
            observer.limit = None
            trainer.restore_devices()
            trainer.run_steps(Position(0, 1, 1), 1)
            seen.append("trains")
    return " ".join(seen)


CHECKS: dict[str, Callable[[], str]] = {
    check.__name__: check for check in (mixed_devices, data_waits_for_the_model, full_card)
}
