"""A watched run in each state of its life: queued, starting, paused, stopping, hung, lost GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from engine.messages.events import (
    Alarm,
    CommandReceived,
    Event,
    Failure,
    Paused,
    Queued,
    RunEnded,
    StopStage,
    Trouble,
    WorkerReady,
)
from tools.screenshots import fake_machine
from tools.screenshots.recording import load
from tools.screenshots.replayed_run import replay
from tools.screenshots.scene import Scene, in_the_middle, replay_older

_HANG = (
    "No step was done for 12 min after step 587. Rank 0 on GPU 0 is in all_reduce "
    "(distributed_c10d.py:2814). Rank 1 on GPU 1 is in validation_set (shifted_digits.py:61), "
    "there in read (dataset.py:118). Rank 2 on GPU 2 is in all_reduce (distributed_c10d.py:2814). "
    "Stop the run if it does not go on. The stacks of all threads are in the folder logs of the "
    "run."
)


def queued() -> Scene:
    """A run that waits for the GPUs of another one."""
    replay_older()
    busy = in_the_middle("wide", fake_machine.workstation, 0.4)
    assert busy.live is not None
    waiting = replay(load("live"), progress=0.0)
    number, gpus = int(busy.live.id), "GPU 0 and GPU 1"
    queue = Queued((busy.live.id,), f"Queued behind run {number} on {gpus} (1st in line).")
    waiting = waiting._replace(rest=(*waiting.rest[:1], (time.time(), queue)), pids=())
    return busy._replace(run_id=waiting.id, live=waiting, others=(busy.live,))


def starting() -> Scene:
    """A run with two of three workers ready."""
    replay_older("wide")
    live = replay(load("live"), progress=0.0)
    ready = [WorkerReady(rank, (fake_machine.uuid(rank),), {"torch": "2.13.0"}) for rank in (0, 2)]
    machine = partial(fake_machine.workstation, since=live.since, pids=live.pids)
    # Its workers are recorded once the window is open, so there is nothing to wait for before.
    return _with(live.since, ready, Scene(machine, live.id, live._replace(pids=())))


def paused() -> Scene:
    """A run that is paused."""
    return _changed(CommandReceived("pause"), Paused(587))


def stopping() -> Scene:
    """A run that is asked to stop."""
    return _changed(CommandReceived("stop"), StopStage("ask"))


def hung() -> Scene:
    """A run that makes no progress."""
    return _changed(Trouble("hang", _HANG, True))


def lost_gpu() -> Scene:
    """A run that ended because a GPU of it fell off the bus."""
    device = fake_machine.uuid(1)
    why = "GPU 1 is lost. The GPU has fallen off the bus: NVML says GPU is lost."
    advice = "If nothing runs on it any more, see the system's log, reset the GPU or restart the "
    ended = RunEnded("failed", f"Rank 1: {why}", Failure(1, device, -9, "SIGKILL", why, "", ""))
    scene = _changed(Alarm(device, "lost", f"{why} {advice}machine.", True), ended)
    return scene._replace(machine=partial(fake_machine.with_lost_gpu, since=time.time() - 90))


def _changed(*events: Event) -> Scene:
    """An active run, with `events` after what is recorded."""
    replay_older("wide", "killed")
    scene = in_the_middle("live", fake_machine.workstation, 0.99)
    return _with(time.time(), events, scene)


def _with(when: float, events: Sequence[Event], scene: Scene) -> Scene:
    """Return the scene whose active run has `events` at its end."""
    assert scene.live is not None
    rest = (*scene.live.rest, *((when, event) for event in events))
    return scene._replace(live=scene.live._replace(rest=rest))
