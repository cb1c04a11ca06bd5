"""Streams: every rank takes its samples, and a resumed run goes on with the very next one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset, default_collate

from engine.pytorch.samples.batch_sharder import LocalBatch, Place
from engine.pytorch.samples.loader import Fetching
from engine.pytorch.samples.streams import Stream, StreamSharder, UnusableStream
from tests.support.sentences import sentence

COUNT, BATCH = 10, 4
CPU = torch.device("cpu")


class Numbers(IterableDataset[torch.Tensor]):
    """Numbers, with noise from the generators of the process."""

    def __iter__(self) -> Iterator[Any]:
        for number in range(COUNT):
            yield torch.tensor([number, random.random(), float(torch.rand(()))]).double()


class Stateful(Numbers):
    """A stream that knows where it is."""

    def __init__(self) -> None:
        self.begun_at = 0
        self.number = 0

    def __iter__(self) -> Iterator[Any]:
        self.begun_at = self.number
        for number, sample in enumerate(super().__iter__()):
            if number >= self.begun_at:
                self.number = number + 1
                yield sample
        self.number = 0

    def state_dict(self) -> dict[str, int]:
        return {"number": self.number}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.number = state["number"]


class SeekingNoise(Stateful):
    """A stream that goes to its place at once, and draws nothing on the way."""

    def __iter__(self) -> Iterator[Any]:
        self.begun_at = self.number
        for number in range(self.begun_at, COUNT):
            self.number = number + 1
            yield torch.tensor([number, random.random()]).double()
        self.number = 0


class WithEpoch(IterableDataset[int]):
    """A stream that is told its epoch."""

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter([self.epoch] * BATCH)


def ready() -> Iterator[Any]:
    """Two batches of several sizes, as a loader of another library gives them."""
    yield torch.arange(5), torch.arange(5)
    yield torch.arange(3), torch.arange(3)


def uneven() -> Iterator[Any]:
    yield torch.arange(5), torch.arange(3)


def sharder(
    dataset: Any, replica: int = 0, replicas: int = 1, accumulation: int = 1, **options: Any
) -> StreamSharder:
    settings: dict[str, Any] = {"batch_size": BATCH, "seed": 0, "fetching": Fetching()}
    place = Place(replica, replicas, accumulation, CPU)
    return StreamSharder(Stream(dataset, "training data"), place, **(settings | options))


def epoch_of(one: StreamSharder, epoch: int = 0, first: int = 0) -> list[list[LocalBatch]]:
    """The local batches of an epoch, from global batch `first` on."""
    found = []
    while local_batches := list(one.local_batches(epoch, first + len(found))):
        found.append(local_batches)
    return found


def rows(batches: list[list[LocalBatch]]) -> list[list[float]]:
    return [
        row.tolist() for parts in batches for part in parts for row in part.batch[: part.samples]
    ]


def test_a_stream_is_divided_into_global_batches_until_it_ends() -> None:
    one = sharder(Numbers())
    assert one.batches == 0
    found = epoch_of(one)
    assert [parts[0].global_size for parts in found] == [4, 4, 2]
    assert [row[0] for row in rows(found)] == list(range(COUNT))


@pytest.mark.parametrize(("replicas", "accumulation"), [(2, 1), (1, 3), (3, 2), (4, 2)])
def test_all_replicas_together_have_each_sample_once(replicas: int, accumulation: int) -> None:
    expected = sorted(rows(epoch_of(sharder(Numbers()))))
    sharders = [sharder(Numbers(), replica, replicas, accumulation) for replica in range(replicas)]
    epochs = [epoch_of(each) for each in sharders]
    assert sorted(row for epoch in epochs for row in rows(epoch)) == expected
    for parts in zip(*epochs, strict=True):
        assert sum(local.weight for each in parts for local in each) == pytest.approx(1)
        assert all(len(each) == accumulation for each in parts)


def test_what_a_collate_fn_draws_does_not_change_the_samples_of_another_rank() -> None:
    def noisy(samples: list[Any]) -> Any:
        for _ in samples:
            random.random()
        return default_collate(samples)

    alone = rows(epoch_of(sharder(Numbers(), fetching=Fetching(collate=noisy))))
    shared = [
        rows(epoch_of(sharder(Numbers(), replica, 2, fetching=Fetching(collate=noisy))))
        for replica in range(2)
    ]
    assert sorted(shared[0] + shared[1]) == sorted(alone)


@pytest.mark.usefixtures("processes")
def test_one_loader_worker_reads_the_same_samples_ahead() -> None:
    here = sharder(Numbers())
    elsewhere = sharder(Numbers(), fetching=Fetching(workers=1))
    for epoch in (0, 1):
        assert rows(epoch_of(elsewhere, epoch)) == rows(epoch_of(here, epoch))
    elsewhere.close()


@pytest.mark.parametrize("make", [Numbers, Stateful, lambda: lambda: iter(Numbers())])
def test_a_resumed_epoch_goes_on_with_the_next_batch(make: Callable[[], Any]) -> None:
    whole = [rows(epoch_of(sharder(make()), epoch)) for epoch in range(2)]
    assert whole[0] != whole[1], "the noise of an epoch is its own"
    assert rows(epoch_of(sharder(make()), 1, first=1)) == whole[1][BATCH:]


def test_a_stream_with_a_state_is_not_read_again() -> None:
    whole = rows(epoch_of(sharder(SeekingNoise()), 1))
    first = sharder(SeekingNoise())
    list(first.local_batches(1, 0))
    list(first.local_batches(1, 1))
    state = first.state()
    assert state["batch"] == 2
    dataset = SeekingNoise()
    resumed = sharder(dataset)
    resumed.load_state(state)
    assert rows(epoch_of(resumed, 1, first=2)) == whole[2 * BATCH :]
    assert dataset.begun_at == 2 * BATCH


def test_a_state_of_another_position_is_not_used() -> None:
    first = sharder(SeekingNoise())
    list(first.local_batches(0, 0))
    other = sharder(SeekingNoise())
    other.load_state(first.state())
    assert rows(epoch_of(other, 1)) == rows(epoch_of(sharder(SeekingNoise()), 1))


def test_a_state_that_needs_code_to_be_read_is_not_kept() -> None:
    dataset = SeekingNoise()
    dataset.state_dict = lambda: {"place": Place(0, 1, 1, CPU)}  # type: ignore[method-assign, dict-item]
    one = sharder(dataset)
    list(one.local_batches(0, 0))
    assert one.state() == {}


def test_reading_leaves_the_random_numbers_of_the_training_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    epoch_of(sharder(Numbers()))
    assert random.random() == expected


def test_a_stream_is_told_its_epoch() -> None:
    [[batch]] = epoch_of(sharder(WithEpoch()), epoch=7)
    assert batch.batch.tolist() == [7] * BATCH

    def numbered(epoch: int) -> Iterator[int]:
        return iter([epoch])

    [[batch]] = epoch_of(sharder(numbered), epoch=3)
    assert batch.batch.tolist() == [3]


def test_what_can_be_read_once_is_read_once() -> None:
    one = Stream(iter(Numbers()), "training data")
    assert one.first()[0] == 0
    assert [int(sample[0]) for sample in one.begin(0)] == list(range(COUNT))
    with pytest.raises(UnusableStream, match="can be read only once"):
        one.begin(1)


def test_a_stream_that_ends_at_once_is_refused_by_name() -> None:
    with pytest.raises(UnusableStream, match="gave no sample in epoch 1"):
        list(sharder(lambda: iter(())).local_batches(0, 0))


@pytest.mark.parametrize("replicas", [1, 2])
def test_ready_batches_are_divided_by_rows(replicas: int) -> None:
    sharders = [sharder(ready, replica, replicas, batch_size=None) for replica in range(replicas)]
    first = [next(each.local_batches(0, 0)) for each in sharders]
    assert sorted(row for local in first for row in local.batch[1].tolist()) == [0, 1, 2, 3, 4]
    assert sum(local.samples for local in first) == first[0].global_size == 5


def test_ready_batches_without_common_rows_are_refused_by_name() -> None:
    assert next(sharder(uneven, batch_size=None).local_batches(0, 0)).samples == 1
    with pytest.raises(UnusableStream, match=sentence("cannot-be-divided-into-parts").pattern):
        next(sharder(uneven, replicas=2, batch_size=None).local_batches(0, 0))


def test_ranks_that_read_something_else_are_told() -> None:
    one = sharder(Numbers(), is_equal=lambda fingerprint: False)
    with pytest.raises(UnusableStream, match=sentence("other-samples-on-another-rank").pattern):
        list(one.local_batches(0, 0))


def test_the_fingerprint_is_that_of_the_sample() -> None:
    seen: list[int] = []
    for dataset in (Numbers(), Numbers(), lambda: iter([torch.ones(3)] * 8)):
        one = sharder(dataset, is_equal=lambda number: bool(seen.append(number)) or True)
        list(one.local_batches(0, 0))
    assert seen[0] == seen[1] != seen[2]


def test_the_last_smaller_batch_may_be_dropped() -> None:
    assert len(epoch_of(sharder(Numbers(), drop_last=True))) == 2


def test_a_stream_of_hugging_face_that_shuffles_is_read_again() -> None:
    """Its state leaves out what is in its buffer."""

    class BufferShuffledExamplesIterable:
        ex_iterable = None

    class Source:
        ex_iterable = None

    def stream(parts: Any) -> Stream:
        dataset = SeekingNoise()
        kind = type("IterableDataset", (SeekingNoise,), {"__module__": "datasets.iterable_dataset"})
        dataset.__class__ = kind
        dataset._ex_iterable = parts  # type: ignore[attr-defined]
        return Stream(dataset, "training data")

    nested = Source()
    nested.ex_iterables = [Source(), BufferShuffledExamplesIterable()]  # type: ignore[attr-defined]
    assert stream(Source()).has_exact_state
    assert not stream(nested).has_exact_state
    assert not stream(None).has_exact_state
