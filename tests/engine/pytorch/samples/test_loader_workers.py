"""A loader worker that ends, however it does: one sentence with the sample and the line."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, get_worker_info

from engine.pytorch.samples.loader import Fetching, MapSamples
from engine.pytorch.samples.loader_workers import LoaderWorkerEnded
from engine.training.errors import TrainingFailed
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

BAD = 3
SECONDS = 60.0


def crash() -> None:
    ctypes.string_at(0)  # the line of the crash


def wait() -> None:
    threading.Event().wait(SECONDS)


class Harmful(Dataset[Any]):
    """A data set whose sample 3 does something to its process."""

    def __init__(self, harm: Callable[[], Any]) -> None:
        self.harm = harm
        self.paths = [f"/data/{k}.png" for k in range(8)]

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        if index == BAD and get_worker_info() is not None:
            return self.harm()
        return torch.zeros(2), index


def failure(harm: Callable[[], Any], workers: int = 2, **options: Any) -> Any:
    fetching = Fetching(workers, owns=lambda file: file == Path(__file__), **options)
    samples = MapSamples(Harmful(harm), 0, fetching=fetching)
    requests = [np.arange(k, k + 2) for k in range(0, 8, 2)]
    try:
        with pytest.raises(TrainingFailed) as caught:
            for _ in samples.batches(requests, 0):
                pass
    finally:
        samples.close()
    return caught.value


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crash_is_one_sentence_with_sample_and_line(
    workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    line = line_of("# the line of the crash")
    error = failure(crash, workers)
    place = f"{Path(__file__).name}:{line}"
    assert str(error) == sentence("loader-worker-crashed-in-a-sample", place=place)
    assert error.where == f"{__file__}:{line}"
    assert "Segmentation fault" in capfd.readouterr().err, "the log has the whole stack"


def test_a_kill_is_one_sentence_with_its_sample() -> None:
    error = failure(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert str(error).startswith(sentence("loader-worker-was-ended-by-sigkill"))
    assert str(error).endswith(sentence("while-it-read-sample"))


def test_full_shared_memory_says_what_to_do() -> None:
    error = failure(lambda: os.kill(os.getpid(), signal.SIGBUS))
    assert "SIGBUS" in str(error)
    assert "/dev/shm" in str(error)
    assert "fewer loader workers" in str(error)


def test_an_exit_is_one_sentence() -> None:
    error = failure(lambda: os._exit(3))
    assert str(error) == sentence("loader-worker-ended-with-exit-code")


def test_what_cannot_be_passed_on_ends_the_wait() -> None:
    error = failure(lambda: lambda: 0, collate=list)
    assert isinstance(error, LoaderWorkerEnded)
    assert sentence("could-not-pass-batch") in str(error)
    assert "pickle" in str(error)


def test_a_timeout_of_the_loader_names_the_sample() -> None:
    error = failure(wait, more={"timeout": 1.0})
    assert sentence("within-timeout-of-dataloader") in str(error)
    assert "sample 3 (/data/3.png)" in str(error)


def test_an_exception_has_a_note_with_its_sample() -> None:
    def fail() -> None:
        raise KeyError("no such picture")

    samples = MapSamples(Harmful(fail), 0, fetching=Fetching(1, what="training data"))
    with pytest.raises(KeyError, match=sentence("in-sample-3-of-training-data").pattern):
        list(samples.batches([np.array([BAD])], 0))
    samples.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_that_differ_are_named_with_the_line_of_the_data_set(workers: int) -> None:
    class Uneven(Harmful):
        def __getitem__(self, index: int) -> Any:  # its place
            return torch.zeros(2 + index)

    fetching = Fetching(workers, owns=lambda file: file == Path(__file__))
    samples = MapSamples(Uneven(wait), 0, fetching=fetching)
    with pytest.raises(TrainingFailed) as caught:
        list(samples.batches([np.array([5, 1])], 0))
    samples.close()
    assert str(caught.value).startswith(sentence("value-of-sample-has-shape-and-of-sample"))
    assert caught.value.where == f"{__file__}:{line_of('# its place')}"


def test_the_function_of_a_loader_worker_finds_the_data_set_of_the_recipe() -> None:
    def begin(worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        info.dataset.harm = lambda: (torch.ones(2), 99)

    samples = MapSamples(Harmful(crash), 0, fetching=Fetching(1, worker_init=begin))
    [(_, targets)] = samples.batches([np.array([BAD])], 0)
    samples.close()
    assert targets.tolist() == [99]
