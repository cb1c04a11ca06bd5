"""A device without memory: the run stops and says so, or goes on with smaller parts of a batch."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.events import Rewound, Shrunk
from engine.runs.run_state import RunState
from tests.support.runs import curve, events, failure_of, logs, spec, train, wait_for_end
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

RATE = 0.05


def run(strategy: str, devices: int, where: str = "", limit: int = 5, **changes: Any) -> RunInfo:
    """A run over, in which parts of more than `limit` samples do not fit on the last device."""
    settings = {"where": where, "limit": limit, "rank": devices - 1}
    settings |= changes.pop("settings", {})
    wanted: dict[str, Any] = {"on_oom": "shrink", "learning_rate": RATE} | changes
    return train(spec("too_large", strategy, devices, settings=settings, **wanted))


def shrunk(info: RunInfo) -> list[Shrunk]:
    return [event for event in events(info) if isinstance(event, Shrunk)]


def losses(info: RunInfo) -> list[float]:
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    return curve(info, "train/loss")[1]


@pytest.fixture(scope="module")
def undisturbed() -> list[float]:
    """The curve of one device that has enough memory."""
    return losses(run("torch/single", 1, on_oom="stop"))


@pytest.mark.parametrize(
    ("strategy", "devices", "where"),
    [
        ("torch/single", 1, "forward"),
        pytest.param("torch/single", 1, "backward", marks=pytest.mark.nightly),
        pytest.param("torch/ddp", 2, "forward", marks=pytest.mark.nightly),
        ("torch/ddp", 2, "backward"),
    ],
)
def test_the_step_is_repeated_in_smaller_parts(
    strategy: str, devices: int, where: str, undisturbed: list[float]
) -> None:
    info = run(strategy, devices, where)
    assert losses(info) == pytest.approx(undisturbed, abs=1e-5)
    assert info.status.attempt == 1
    samples = 32 // devices
    parts = [2, 4, 8][: 3 if devices == 1 else 2]
    assert [event.accumulation for event in shrunk(info)] == parts
    [first, *_] = shrunk(info)
    assert (first.rank, first.step, first.restarts) == (devices - 1, 4, False)
    assert first.text == sentence(
        "ranks-go-on-with-smaller-parts",
        rank=devices - 1,
        where=where,
        half=samples // 2,
        samples=samples,
    )


@pytest.mark.parametrize(
    ("strategy", "where"),
    [
        pytest.param("torch/single", "optimizer", marks=pytest.mark.nightly),
        pytest.param("torch/ddp", "optimizer", marks=pytest.mark.nightly),
        pytest.param("torch/fsdp", "backward", marks=pytest.mark.nightly),
        ("torch/fsdp", "optimizer"),
    ],
)
def test_a_state_that_is_not_intact_is_that_of_the_newest_checkpoint(
    strategy: str, where: str, undisturbed: list[float]
) -> None:
    """No restarts are allowed: this one is none."""
    info = run(strategy, 1 if strategy == "torch/single" else 2, where, 9, checkpoint_steps=2)
    assert losses(info) == pytest.approx(undisturbed, abs=1e-5)
    found = shrunk(info)
    assert [event.restarts for event in found] == [True] * len(found)
    assert info.status.attempt == 1 + len(found)
    assert {event.step for event in events(info) if isinstance(event, Rewound)} == {2}


@pytest.mark.nightly
def test_without_a_checkpoint_it_begins_again(undisturbed: list[float]) -> None:
    info = run("torch/fsdp", 2, "forward", 9)
    assert losses(info) == pytest.approx(undisturbed, abs=1e-5)
    assert [event.restarts for event in shrunk(info)] == [True]
    assert [event.step for event in events(info) if isinstance(event, Rewound)] == [0]


@pytest.mark.parametrize(
    "streamed", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["arrays", "stream"]
)
def test_a_batch_of_seven_samples_over_two_ranks(streamed: bool) -> None:
    settings = {"streamed": streamed, "samples": 40}
    more: dict[str, Any] = {"batch_size": 7, "settings": settings, "loader_workers": 0}
    whole = run("torch/single", 1, **more)
    info = run("torch/ddp", 2, "backward", 1, **more)
    assert losses(info) == pytest.approx(losses(whole), abs=1e-5)
    assert [event.accumulation for event in shrunk(info)] == [2, 4]
    assert sentence("with-x-up-to-samples-instead") in shrunk(info)[0].text


def test_a_resumed_run_begins_with_what_was_in_force(undisturbed: list[float]) -> None:
    first = run("torch/ddp", 2, "forward", 9, epochs=1)
    losses(first)
    assert first.spec.accumulation == 1
    client.resume(first.id, spec=msgspec.structs.replace(first.spec, epochs=2))
    info = wait_for_end(first.id)
    assert losses(info) == pytest.approx(undisturbed, abs=1e-5)
    assert [event.accumulation for event in shrunk(info)] == [2]
    assert info.status.shrunk is not None


def test_parts_of_one_sample_end_the_run() -> None:
    info = run("torch/ddp", 2, "forward", 0, batch_size=8, settings={"limit": -1})
    assert [event.accumulation for event in shrunk(info)] == [2, 4]
    failure = failure_of(info)
    assert failure.rank == 1
    assert failure.message.startswith(sentence("rank-failed-out-of-memory"))


def test_by_default_the_run_stops_and_says_what_to_try() -> None:
    info = run("torch/ddp", 2, "backward", on_oom="stop", max_restarts=0)
    assert not shrunk(info)
    failure = failure_of(info)
    assert sentence("failed-cpu-is-out-of-memory") in failure.message
    assert "gradient accumulation 2" in failure.message


LIMITED = """
import resource
import torch
from torch import nn

WIDTH = 2**16  # an activation of one sample has 256 KiB
MEBIBYTES = 160  # how much more than at the second step the process may have

calls = 0

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower, self.upper = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, inputs):
        global calls
        calls += self.training
        if self.training and calls == 2:
            with open("/proc/self/statm") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            limit = now + MEBIBYTES * 2**20 if limited else resource.RLIM_INFINITY
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return self.upper(torch.tanh(self.lower(inputs)))

def model(is_limited: bool = True):
    global limited
    limited = is_limited
    return Model()

def datasets():
    inputs = torch.randn(1024, 4, generator=torch.Generator().manual_seed(0))
    return (inputs, inputs.argmax(1) // 2), None

def optimizer(parameters, learning_rate):
    return torch.optim.SGD(parameters, learning_rate)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it limits the address space")
@pytest.mark.nightly
def test_a_real_limit_of_the_memory_is_met_and_left_behind(tmp_path: Path) -> None:
    recipe = tmp_path / "limited.py"
    recipe.write_text(LIMITED)
    whole, info = (
        train(
            spec(
                str(recipe),
                "torch/single",
                batch_size=256,
                epochs=1,
                learning_rate=0.01,
                on_oom="shrink",
                settings={"is_limited": is_limited},
            )
        )
        for is_limited in (False, True)
    )
    assert losses(info) == pytest.approx(losses(whole), abs=1e-5)
    assert not shrunk(whole)
    first, *_ = shrunk(info)
    assert first.step == 2
    assert re.search(r"in (for|back)ward \(tried to allocate 64\.0 MiB on cpu:0\)", first.text)
    assert info.status.attempt == 1


def keras_run(strategy: str, devices: int, **changes: Any) -> RunInfo:
    wanted: dict[str, Any] = {"on_oom": "shrink", "learning_rate": RATE} | changes
    return train(spec("too_large_keras", strategy, devices, **wanted))


@pytest.mark.nightly
def test_a_keras_model_repeats_its_step_under_ddp() -> None:
    info = keras_run("torch/keras_ddp", 2, settings={"limit": 9})
    assert losses(info) == pytest.approx(losses(keras_run("torch/keras_ddp", 1)), abs=1e-5)
    assert [event.restarts for event in shrunk(info)] == [False]


@pytest.mark.nightly
def test_tensorflow_goes_on_from_the_newest_checkpoint() -> None:
    info = keras_run("tf/single", 1, settings={"limit": 17}, checkpoint_steps=1)
    assert losses(info) == pytest.approx(losses(keras_run("tf/single", 1)), abs=1e-5)
    [event] = shrunk(info)
    assert (event.restarts, event.accumulation, info.status.attempt) == (True, 2, 2)


@pytest.mark.nightly
def test_tensorflow_cannot_divide_the_batches_of_a_validation() -> None:
    info = keras_run("tf/single", 1, settings={"limit": 17, "in_validation": True})
    assert sentence("under-tensorflow-validation-computes-whole") in failure_of(info).message
