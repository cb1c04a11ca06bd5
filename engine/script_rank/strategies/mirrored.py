"""`script/mirrored`: one TensorFlow process; the calls of the script mirror its models."""

from __future__ import annotations

from engine.script_rank.script_strategy import OneProcess


class Mirrored(OneProcess):
    """MirroredStrategy over all devices of one process."""

    name = "script/mirrored"
    title = "Mirrored (calls)"
    summary = (
        "One TensorFlow process; the models that the script makes with the calls of traindeck "
        "have a copy on each device, and gradients are summed over them."
    )
    mode = "mirrored"
    needs_calls = True


strategy = Mirrored()
