"""`script/tf_config`: one process per device with TF_CONFIG; the script distributes."""

from __future__ import annotations

from engine.script_rank.script_strategy import ProcessPerDevice


class TfConfig(ProcessPerDevice):
    """The processes are the workers of one TensorFlow cluster on this machine."""

    name = "script/tf_config"
    title = "TF_CONFIG workers"
    summary = (
        "Starts the command once per device, as the workers that TF_CONFIG describes: for "
        "TensorFlow scripts with MultiWorkerMirroredStrategy."
    )
    mode = "tf_config"


strategy = TfConfig()
