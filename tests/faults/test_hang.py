"""A rank hangs: it is noticed, every rank says where it is, and a run that may restart does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import Restarting, Trouble
from engine.runs.run_state import RunState
from tests.support.runs import (
    curve,
    events,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_event,
    wait_until_gone,
)
from tests.support.sentences import sentence

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(os.name != "posix", reason="stacks are asked for with a signal"),
]

HANGS = """
import os, sys, time
import torch
from pathlib import Path

samples = steps = 0

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 640
    def __getitem__(self, index):
        global samples
        samples += torch.utils.data.get_worker_info() is not None
        if samples == 480:  # of batch 15
            fetch()
        return torch.ones(4), torch.ones(1)

def model():
    return torch.nn.Linear(4, 1)

def datasets():
    return Samples(), Samples()

def loss(outputs, targets):
    global steps
    steps += torch.is_grad_enabled()
    last = int(os.environ["WORLD_SIZE"]) - 1
    if steps == 12 and last and int(os.environ["RANK"]) == last:
        fetch()
    time.sleep(0.001)
    return ((outputs - targets) ** 2).mean()

def fetch():
    go = Path(__file__).with_suffix(".go")
    go.with_suffix(".since").write_text(repr(time.time()))
    while not go.exists() and not os.environ.get("TRAINDECK_RESUME"):
        time.sleep(0.02)  # asleep
"""
LIMIT = 0.1
"""Minutes; the shortest that no slow step of a busy machine reaches."""


def recipe_in(folder: Path) -> Path:
    path = folder / "hangs.py"
    path.write_text(HANGS)
    return path


def test_every_rank_says_where_it_is_and_nothing_is_ended(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    run_id = client.start(
        spec(str(recipe), "torch/ddp", 2, epochs=1_000_000, hang_minutes=LIMIT, batch_size=64)
    )
    trouble = wait_for_event(run_id, Trouble)
    info = client.get_run(run_id)
    waited = info.status.updated - float(recipe.with_suffix(".since").read_text())
    print(f"reported with all stacks after {waited:.2f} s without a step; limit {60 * LIMIT} s")
    line = 1 + HANGS.split("# asleep")[0].count("\n")
    assert trouble.raised
    assert sentence("rank-is-in-fetch", line=line) in trouble.text
    assert "Rank 0 on cpu:0 is in " in trouble.text  # in a collective, which no recipe knows of
    assert "fetch" not in trouble.text.partition("Rank 1")[0]
    assert info.status.troubles == {"hang": trouble.text}
    assert info.state is RunState.RUNNING

    recipe.with_suffix(".go").touch()
    info = wait_for(run_id, lambda info: not info.status.troubles and is_training(info))
    client.send(run_id, Stop())
    info = wait_for_end(run_id)
    assert info.state is RunState.STOPPED
    assert [event.raised for event in events(info) if isinstance(event, Trouble)] == [True, False]
    assert curve(info, "train/loss")[0] == list(range(1, info.status.step + 1))
    wait_until_gone(info)


@pytest.mark.nightly
def test_a_run_that_may_restart_does_not_hang_for_ever(tmp_path: Path) -> None:
    """What hangs is a process that loads samples; the worker's main thread waits for it."""
    recipe = recipe_in(tmp_path)
    run_id = client.start(
        spec(
            str(recipe),
            "torch/single",
            epochs=1_000_000,
            hang_minutes=LIMIT,
            max_restarts=1,
            checkpoint_steps=5,
            loader_workers=1,
        )
    )
    wait_for(run_id, lambda info: bool(info.status.troubles))
    begun = time.monotonic()
    wait_for(run_id, lambda info: info.status.attempt == 2 and info.status.step > 12)
    print(f"at work again {time.monotonic() - begun:.2f} s after it was noticed")
    client.send(run_id, Stop(now=True))
    info = wait_for_end(run_id)
    [restart] = [event for event in events(info) if isinstance(event, Restarting)]
    assert restart.failure.message.startswith(
        sentence("training-hangs-is-in-fetch", rank="Rank 0 on cpu:0")
    )
    assert restart.failure.where.startswith(f"{recipe}:")
    wait_until_gone(info)
