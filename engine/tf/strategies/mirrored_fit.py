"""`tf/mirrored_fit`: MirroredStrategy with Keras' own `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.tf.strategy import TfStrategy

if TYPE_CHECKING:
    from engine.tf.trainer import TfTrainer
    from engine.worker.session import WorkerSession


class MirroredFit(TfStrategy):
    """`fit` has the loop, one call per epoch; our callback holds it between two chunks."""

    name = "tf/mirrored_fit"
    title = "Mirrored with Keras fit"
    summary = (
        "MirroredStrategy trained by Keras' own fit, for comparison with it. Slower than "
        "tf/mirrored, which does the same in our loop."
    )
    needs = "1 or more devices of one kind"
    refusals = {
        **TfStrategy.refusals,
        "accumulation": "Under MirroredStrategy fit cannot accumulate gradients: choose "
        "tf/mirrored.",
        "clip_norm": "Under MirroredStrategy fit clips every replica's gradients before they are "
        "summed, which is another training: choose tf/mirrored.",
        "gradient_norm": "fit does not show its gradients: choose tf/mirrored.",
        "precision": "Under MirroredStrategy fit spoils the weights when float16 overflows on one "
        "replica only; for mixed precision choose tf/mirrored.",
        "compile": "Under MirroredStrategy Keras leaves XLA off: choose tf/mirrored.",
        "schedule": "fit keeps the learning rate that the recipe's optimizer has: choose "
        "tf/mirrored.",
        "warmup_steps": "fit keeps the learning rate that the recipe's optimizer has: choose "
        "tf/mirrored.",
    }

    def problems(self, devices: Sequence[str]) -> list[str]:
        return []

    def build(self, devices: Sequence[str]) -> Any:
        import tensorflow as tf

        return tf.distribute.MirroredStrategy(list(devices))

    def trainer(self, session: WorkerSession) -> TfTrainer:
        from engine.tf.fit_trainer import FitTrainer

        return FitTrainer(session, self)


strategy = MirroredFit()
