"""One example of every event, for tests that must hold for all of them."""

from __future__ import annotations

import math
from typing import get_args

from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CacheEmptied,
    CheckpointFailed,
    CheckpointSaved,
    CommandReceived,
    CommandRefused,
    EpochEnded,
    Event,
    Failure,
    HistogramLogged,
    ImageLogged,
    Metrics,
    Notice,
    Paused,
    Points,
    Progress,
    Queued,
    RecipeChosen,
    RecipeVersion,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    StopStage,
    TrainingEnded,
    TrainingStarted,
    Trouble,
    WorkerFailed,
    WorkerReady,
    WorkerStarted,
)

EXAMPLES: tuple[Event, ...] = (
    AttemptStarted(attempt=1, supervisor_pid=4242, supervisor_created=1000.5),
    RecipeChosen(RecipeVersion.AS_IT_WAS, changes="mine.py: 3 lines changed"),
    Queued(ahead=("12",), reason="Queued behind run 12 on GPU 0 (next in line)."),
    WorkerStarted(rank=0, pid=4243, devices=("cpu:0",), created=1001.5),
    WorkerReady(rank=0, devices=("cpu:0",), versions={"torch": "2.13.0"}),
    TrainingStarted(step=0, steps_per_epoch=10, epochs=3, replicas=2, parameters=1234),
    Metrics(begin=1.0, end=2.0, points=[Points("train/loss", [1, 2], [0.5, 0.25])]),
    Progress(epoch=1, step=2, samples_per_second=64.0, step_seconds=0.5, seconds_left=14.0),
    EpochEnded(epoch=1, step=10, metrics={"validation/loss": 0.125}),
    ImageLogged(series="samples", step=10, file="media/samples-10.png", width=8, height=4),
    HistogramLogged(series="weights", step=10, edges=[0.0, 0.5, 1.0], counts=[3.0, 1.0]),
    CheckpointSaved(path="/runs/1/checkpoints/x", step=10, epoch=1, bytes=99, seconds=0.5),
    CheckpointFailed(step=20, text="There is no room for it."),
    CacheEmptied(rank=0, device="cpu:0", freed_bytes=4096),
    Paused(step=10),
    Resumed(step=10),
    TrainingEnded(step=30, completed=True),
    Notice(text="Something to know.", rank=1),
    Shrunk(1, 37, "Rank 1 ran out of memory.", accumulation=2, asked=1, batch_size=8, replicas=2),
    Alarm(device="GPU-1", kind="hot", text="GPU 1 is hot.", raised=True),
    Trouble(kind="hang", text="No step for 120 s.", raised=True),
    WorkerFailed(rank=1, message="ValueError: x", where="r.py:3", traceback="…", lost_peer=False),
    CommandReceived(command="Pause"),
    CommandRefused(command="Pause", reason="The run is paused already."),
    StopStage(stage="ask"),
    Rewound(10, "step-00000010", 1, {"validation/loss": 0.5}),
    Restarting(Failure(0, "cpu:0", 1, "", "Rank 0 failed.", "r.py:3", ""), number=1, most=3),
    RunEnded(
        state="failed",
        reason="Rank 1 failed.",
        failure=Failure(1, "cpu:1", -9, "SIGKILL", "Rank 1 failed.", "r.py:3", "last line"),
    ),
)
assert {type(event) for event in EXAMPLES} == set(get_args(Event))


def losses(values: list[float], first_step: int = 1) -> Metrics:
    """`values` of `train/loss` at consecutive steps, between the times 100 and 200."""
    steps = list(range(first_step, first_step + len(values)))
    return Metrics(100.0, 200.0, [Points("train/loss", steps, values)])


NOT_NUMBERS = [1.0, math.nan, math.inf, -math.inf, 2.0]
"""Values that a diverging training produces."""
