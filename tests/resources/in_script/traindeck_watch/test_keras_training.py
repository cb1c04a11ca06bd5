from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.script_listener import ScriptListener, finished

pytestmark = pytest.mark.usefixtures("processes")

SCRIPT = Path(__file__).parents[1] / "scripts" / "keras_and_loops.py"


@pytest.mark.nightly
def test_fit_and_loops_are_watched_and_stopped(short_folder):
    """One run of the script for all of it: the import of TensorFlow takes seconds."""
    variables = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with ScriptListener(short_folder) as listener:
        program = listener.start(str(SCRIPT), str(short_folder), "endless", variables=variables)
        listener.wait_for_step(30)
        listener.act("pause", 1)
        paused = listener.wait_for("paused")["step"]
        listener.act("checkpoint", 2)
        assert listener.wait_for("saved")["files"] == ["rank0.keras", "rank0.optimizer-0.npz"]
        listener.act("resume", 3)
        listener.wait_for_step(paused + 10)
        listener.act("stop", 4)
        printed = finished(program).splitlines()
        stopped = listener.wait_for("stopping")["step"]
    assert printed[-1] == "ended"
    shown = next(json.loads(line) for line in printed if line.startswith("{"))
    losses = listener.series["train/loss"]
    expected = shown["fit"] + shown["eager"] + shown["graph"]
    assert losses[:12] == [(step, loss) for step, loss in enumerate(expected, start=1)]
    assert listener.series["validation/loss"] == list(zip((3, 6), shown["validation"], strict=True))
    rates = listener.values("train/learning_rate")
    assert rates == pytest.approx([0.05] * len(rates))
    # Keras ends a fit after the batch that was due when it was asked to, or with the epoch.
    assert listener.step == stopped + (stopped % 3 > 0)
    assert [frame["step"] for frame in listener.of_kind("file")] == [3, 6]
    assert [frame["step"] for frame in listener.of_kind("epoch")][:2] == [3, 6]
    assert listener.of_kind("plan")[0]["steps_per_epoch"] == 3
    assert any(frame.get("samples_per_second") for frame in listener.of_kind("points"))
    assert not listener.notices, listener.notices
