"""`tf/mirrored_fit`: MirroredStrategy with Keras' own `fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.tf.strategies.mirrored import Mirrored

if TYPE_CHECKING:
    from engine.spec.run_spec import RunSpec
    from engine.tf.parallel import Parallel
    from engine.worker.session import WorkerSession


class MirroredFit(Mirrored):
    """Keras' `fit` runs the loop, once per epoch; a callback pauses it between two chunks."""

    name = "tf/mirrored_fit"
    title = "Mirrored, Keras fit"
    summary = (
        "MirroredStrategy with Keras' own fit, for comparison. Slower than tf/mirrored, which does "
        "the same in our loop."
    )
    refusals = Mirrored.refusals | {
        "accumulation": "Under MirroredStrategy fit cannot accumulate gradients: choose "
        "tf/mirrored.",
        "clip_norm": "Under MirroredStrategy fit clips every replica's gradients before they are "
        "summed, which changes the training: choose tf/mirrored.",
        "gradient_norm": "fit does not show its gradients: choose tf/mirrored.",
        "compile": "Under MirroredStrategy Keras leaves XLA off: choose tf/mirrored.",
        "schedule": "fit keeps the learning rate that the recipe's optimizer has: choose "
        "tf/mirrored.",
        "warmup_steps": "fit keeps the learning rate that the recipe's optimizer has: choose "
        "tf/mirrored.",
    }

    def refusal(self, field: str, spec: RunSpec) -> str:
        if field == "precision" and spec.precision == "fp16":
            return (
                "Under MirroredStrategy fit spoils the weights when float16 overflows on one "
                "replica only: choose tf/mirrored, or bf16."
            )
        if field == "on_nan" and spec.on_nan == "skip":
            return "fit applies every update before it shows the loss: choose tf/mirrored, or stop."
        return super().refusal(field, spec)

    def parallel(self, session: WorkerSession) -> Parallel:
        from engine.tf.parallelism.fit import FitParallel

        return FitParallel(super().parallel(session).distribution)


strategy = MirroredFit()
