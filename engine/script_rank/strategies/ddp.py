"""`script/ddp`: one process per device; `traindeck.place` wraps the models with DDP."""

from __future__ import annotations

from engine.script_rank.script_strategy import ProcessPerDevice


class DistributedDataParallel(ProcessPerDevice):
    """Every rank holds the whole models."""

    name = "script/ddp"
    title = "DDP (calls)"
    summary = (
        "One process per device; traindeck.place gives each a copy of the models, whose gradients "
        "are averaged. The usual choice when the models fit on one device."
    )
    mode = "ddp"
    needs_calls = True


strategy = DistributedDataParallel()
