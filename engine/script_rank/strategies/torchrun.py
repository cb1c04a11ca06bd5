"""`script/torchrun`: one process per device with torchrun's variables; the script distributes."""

from __future__ import annotations

from engine.script_rank.script_strategy import ProcessPerDevice


class Torchrun(ProcessPerDevice):
    """Takes the place of `torchrun --nproc-per-node N`."""

    name = "script/torchrun"
    title = "torchrun"
    summary = (
        "Starts the command once per device, with the variables that torchrun sets: for PyTorch "
        "scripts that distribute their training themselves, such as with DDP, Lightning or "
        "Accelerate."
    )
    mode = "torchrun"


strategy = Torchrun()
