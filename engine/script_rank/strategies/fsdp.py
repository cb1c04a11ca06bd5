"""`script/fsdp`: one process per device; `traindeck.place` shards the models with FSDP2."""

from __future__ import annotations

from engine.script_rank.script_strategy import ProcessPerDevice


class FullyShardedDataParallel(ProcessPerDevice):
    """Parameters, gradients and optimizer states are sharded over the ranks."""

    name = "script/fsdp"
    title = "FSDP2 (calls)"
    summary = (
        "One process per device; traindeck.place shards the models and their optimizers over "
        "them: for models whose training does not fit on one device."
    )
    mode = "fsdp"
    needs_calls = True


strategy = FullyShardedDataParallel()
