"""What is said where a GPU that was chosen is not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from engine.pytorch.devices import own_devices
from engine.training.errors import TrainingFailed
from tests.support.sentences import sentence

GPUS = ("GPU-a", "GPU-b")


def fail(error: Exception) -> Callable[[], None]:
    def init() -> None:
        raise error

    return init


def see(monkeypatch: pytest.MonkeyPatch, count: int, init: Callable[[], None]) -> list[int]:
    """Let PyTorch be built with CUDA, and see `count` GPUs; return which one it is set to."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "set_device", lambda gpu: chosen.append(gpu.index))
    return chosen


def test_each_process_has_its_gpus_at_their_place_among_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = see(monkeypatch, 2, lambda: None)
    assert own_devices(GPUS[1:], GPUS) == (torch.device("cuda", 1),)
    assert chosen == [1]
    assert own_devices(("cpu:3",), ("cpu:1", "cpu:3")) == (torch.device("cpu"),)
    assert chosen == [1], "a run on CPUs asks CUDA nothing"


@pytest.mark.parametrize(
    ("count", "error", "said"),
    [
        (1, None, sentence("sees-one-of-chosen-gpus").pattern),
        (
            2,
            RuntimeError("Found no NVIDIA driver on your system. Please check.\nMore"),
            sentence("cannot-use-gpu-a-gpu-b-found").pattern,
        ),
        (2, AssertionError(), r"cannot use GPU-a, GPU-b: AssertionError\."),
    ],
    ids=["too few", "no driver", "no text"],
)
def test_what_is_missing_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, count: int, error: Exception | None, said: str
) -> None:
    see(monkeypatch, count, fail(error) if error else lambda: None)
    with pytest.raises(TrainingFailed, match=said) as found:
        own_devices(GPUS[:1], GPUS)
    assert sentence("doctor-says-what-is-missing") in str(found.value)


def test_a_build_without_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.version.cuda:
        pytest.skip("this build has CUDA")
    with pytest.raises(TrainingFailed, match=sentence("gpu-a-gpu-b-torch-not-compiled").pattern):
        own_devices(GPUS[:1], GPUS)
