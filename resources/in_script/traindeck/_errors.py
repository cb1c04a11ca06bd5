"""The exceptions that the calls raise."""

from __future__ import annotations


class TraindeckError(RuntimeError):
    """What a call cannot do, in a sentence that says what to do instead."""


class Stopped(SystemExit):
    """The run was stopped and its checkpoint is saved: it ends the script, with `finally` blocks.

    `except Exception` does not catch it.
    """

    def __init__(self) -> None:
        super().__init__(0)


_RANK = "read it from the variable of your launcher, or from torch.distributed."
GONE = {
    "place": "move the model with model.to(device). For several devices, let the script wrap it "
    "with DistributedDataParallel, Accelerate or Fabric and choose script/torchrun, or write a "
    "recipe, which trains under every strategy.",
    "scope": "use the scope() of your own tf.distribute.MirroredStrategy under script/single, or "
    "write a recipe for tf/mirrored.",
    "replicated": "use the run() of your own tf.distribute.MirroredStrategy under script/single, "
    "or write a recipe for tf/mirrored.",
    "mean": "use torch.distributed.all_reduce, or what your library has for it.",
    "split": "divide the batches over the ranks with a DistributedSampler, Accelerate or Fabric.",
    "device": "choose it yourself, such as with torch.device.",
    "rank": _RANK,
    "world_size": _RANK,
    "is_main": _RANK,
}
"""What calls of earlier versions did, and how a script does it now."""
