"""What datasets() may give, and what is refused by name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
)
from torch.utils.data.distributed import DistributedSampler

from engine.pytorch.samples.data import Columns
from engine.pytorch.samples.nested import UnusableBatch
from engine.pytorch.training_data import DataFacts, TrainingData, UnusableData, divide
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed
from engine.training.protocols import UNKNOWN
from tests.support.sentences import sentence

COUNT = 10
CPU = torch.device("cpu")
INPUTS, TARGETS = np.arange(2.0 * COUNT).reshape(COUNT, 2), np.arange(COUNT)


class Dicts(Dataset[Any]):
    """Samples with names."""

    def __init__(self, count: int = COUNT) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.full((2,), float(index)), "number": index, "name": f"s{index}"}


class Streamed(IterableDataset[Any]):
    """The same samples as a stream."""

    def __iter__(self) -> Iterator[Any]:
        return iter([Dicts()[index] for index in range(COUNT)])


class OwnLoader(DataLoader[Any]):
    """A loader of another library, which makes its batches itself."""

    def __iter__(self) -> Any:
        return iter([{"number": torch.arange(3)}, {"number": torch.arange(3, 5)}])


def spec(**changes: Any) -> RunSpec:
    settings: dict[str, Any] = {"recipe": "r", "strategy": "torch/single", "devices": ("cpu:0",)}
    return RunSpec(**(settings | {"batch_size": 4, "epochs": 2} | changes))


def loaded(given: Any, notices: list[str] | None = None, **options: Any) -> TrainingData:
    changes = options.pop("spec", {})
    facts = DataFacts(
        spec(**changes),
        CPU,
        takes_pairs=options.pop("takes_pairs", False),
        notice=(notices if notices is not None else []).append,
        **options,
    )
    return TrainingData(given, facts)


def parallel(replica: int = 0, replicas: int = 1) -> Any:
    return SimpleNamespace(replica=replica, replicas=replicas, device=CPU)


def epoch_of(data: TrainingData, epoch: int = 0, place: Any = None) -> list[Any]:
    """The batches of an epoch of training."""
    sharder = data.train_sharder(place or parallel())
    found: list[Any] = []
    while not sharder.batches or len(found) < sharder.batches:
        local = next(sharder.local_batches(epoch, len(found)), None)
        if local is None:
            break
        found.append(local.batch)
    return found


def numbers(batches: list[Any]) -> list[int]:
    return [int(number) for batch in batches for number in batch["number"]]


def collate(samples: list[Any]) -> dict[str, Any]:
    return {"number": torch.tensor([sample["number"] for sample in samples]), "own": True}


def loader(dataset: Any = None, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset or Dicts(), **({"batch_size": 4, "collate_fn": collate} | options))


FORMS: dict[str, Any] = {
    "data set": Dicts(),
    "dictionary of arrays": {"number": TARGETS, "x": INPUTS, "name": [f"s{k}" for k in TARGETS]},
    "loader": loader(shuffle=True),
    "stream": Streamed(),
    "function": lambda: iter(Streamed()),
    "loader of a stream": loader(Streamed()),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_gives_each_sample_once_per_epoch(form: Any) -> None:
    batches = epoch_of(loaded((form, None)))
    assert [len(batch["number"]) for batch in batches] == [4, 4, 2]
    assert sorted(numbers(batches)) == list(range(COUNT))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_is_divided_over_replicas(form: Any) -> None:
    expected = epoch_of(loaded((form, None)))
    shares = [epoch_of(loaded((form, None)), place=parallel(replica, 2)) for replica in range(2)]
    for whole, first, second in zip(expected, *shares, strict=True):
        ours = [int(n) for share in (first, second) for n in share["number"]]
        assert sorted(ours) == sorted(whole["number"].tolist())


def test_arrays_datasets_and_shuffled_loaders_have_one_order() -> None:
    orders = [
        numbers(epoch_of(loaded(form), 1))
        for form in (Dicts(), FORMS["dictionary of arrays"], loader(shuffle=True))
    ]
    assert orders[0] == orders[1] == orders[2]


def test_a_loader_keeps_its_order_its_collate_fn_and_what_it_drops() -> None:
    batches = epoch_of(loaded(loader(drop_last=True)))
    assert numbers(batches) == list(range(8))
    assert all(batch["own"] for batch in batches)


def test_a_sampler_of_batches_decides_them() -> None:
    notices: list[str] = []
    sampler = BatchSampler(SequentialSampler(range(6)), 3, drop_last=False)
    given = DataLoader(Dicts(), batch_sampler=sampler, collate_fn=collate)
    batches = epoch_of(loaded(given, notices))
    assert [batch["number"].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]
    assert "batch_sampler" in notices[0]


def test_the_collate_of_a_recipe_serves_where_no_loader_has_its_own() -> None:
    def other(samples: list[Any]) -> dict[str, Any]:
        return {"number": [sample["number"] for sample in samples]}

    assert "x" not in epoch_of(loaded(Dicts(), collate=other))[0]
    assert "x" not in epoch_of(loaded(DataLoader(Dicts()), collate=other))[0]
    assert epoch_of(loaded(loader(), collate=other))[0]["own"]


def test_a_loader_of_another_library_makes_its_own_batches() -> None:
    data = loaded(OwnLoader(Dicts()))
    assert [batch["number"].tolist() for batch in epoch_of(data)] == [[0, 1, 2], [3, 4]]


def test_a_loader_without_a_batch_size_takes_the_runs() -> None:
    notices: list[str] = []
    assert len(epoch_of(loaded(loader(batch_size=1), notices))) == 3
    assert "no batch size of its own" in notices[0]


def test_a_validation_loader_has_its_own_batch_size() -> None:
    sets = loaded((Dicts(), loader(batch_size=3))).validation_sets(parallel())
    assert sets.batches == 4


def test_several_validation_sets_come_one_after_the_other() -> None:
    data = loaded({"train": Dicts(), "test": Dicts(2), "validation": Dicts(5), "more": None})
    sets = data.validation_sets(parallel())
    sets.begin()
    seen = []
    while found := sets.next():
        prefix, local_batches = found
        seen.append((prefix, sum(local.samples for local in local_batches)))
    assert seen == [("", 4), ("", 1), ("test_", 2)]
    assert sets.batches == 3


def test_the_length_of_a_validation_stream_is_not_known() -> None:
    sets = loaded((Dicts(), Streamed())).validation_sets(parallel())
    assert sets.batches == UNKNOWN
    for _ in range(2):
        sets.begin()
        seen = 0
        while found := sets.next():
            seen += sum(local.samples for local in found[1])
        assert seen == COUNT


def test_no_validation_is_fine_unless_it_decides_something() -> None:
    assert loaded(Dicts()).validation_sets(parallel()).batches == 0
    with pytest.raises(UnusableData, match="best checkpoint"):
        loaded(Dicts(), spec={"checkpoint_best": "loss"})


def test_a_large_batch_is_noticed() -> None:
    notices: list[str] = []
    assert len(epoch_of(loaded(Dicts(), notices, spec={"batch_size": 64}))) == 1
    assert sentence("batch-size-is-larger-than-training-data-samples") in notices[0]


def test_weights_are_computed_before_the_batch_is_copied() -> None:
    data = loaded(Dicts(), weigh=lambda batch: batch["number"].sum())
    local = next(data.train_sharder(parallel()).local_batches(0, 0))
    assert local.amount == float(local.batch["number"].sum())
    assert local.name(0) == f"sample {int(local.batch['number'][0])}"


@pytest.mark.parametrize("weigh", [None, lambda batch: 1.0], ids=["samples", "a weight"])
def test_arrays_stay_on_the_host_where_each_batch_is_weighed(
    weigh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[Any] = []
    monkeypatch.setattr(Columns, "move_to_gpu", lambda self, device: moved.append(device))
    loaded(((INPUTS, TARGETS), None), weigh=weigh).move_to_gpu()
    assert moved == ([] if weigh else [CPU])


def test_a_rank_without_samples_has_no_weight() -> None:
    data = loaded(Dicts(2), weigh=lambda batch: 5.0)
    amounts = [
        next(data.train_sharder(parallel(replica, 3)).local_batches(0, 0)).amount
        for replica in range(3)
    ]
    assert amounts == [5.0, 5.0, 0.0]


def test_pairs_are_checked_before_anything_trains() -> None:
    with pytest.raises(UnusableBatch, match="keys x, number, name"):
        loaded(Dicts(), takes_pairs=True, has_own_loss=False).first()
    inputs, targets = loaded((INPUTS, TARGETS), takes_pairs=True).first()
    assert inputs.tolist() == [[0.0, 1.0]]
    assert targets.tolist() == [0]


def test_two_arrays_alone_are_inputs_and_targets_or_refused() -> None:
    assert divide((INPUTS, TARGETS), takes_pairs=True) == ((INPUTS, TARGETS), {})
    with pytest.raises(UnusableData, match="two arrays"):
        divide((INPUTS, TARGETS), takes_pairs=False)


def test_an_iterator_of_two_is_train_and_validation() -> None:
    train, validation = divide(map(Dicts, (3, 4)), takes_pairs=False)
    assert (len(train), len(validation[""])) == (3, 4)


def test_a_data_module_of_lightning_prepares_its_loaders() -> None:
    class LightningDataModule:
        __module__ = "lightning.pytorch.core.datamodule"

        def prepare_data(self) -> None:
            self.called = ["prepare"]

        def setup(self, stage: str) -> None:
            self.called.append(stage)

        def train_dataloader(self) -> Any:
            return loader()

        def val_dataloader(self) -> Any:
            return [loader(), loader()]

    class Own(LightningDataModule):
        pass

    module = Own()
    data = loaded(module)
    assert module.called == ["prepare", "fit"]
    assert len(epoch_of(data)) == 3
    assert data.validation_sets(parallel()).batches == 6


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((Dicts(), Dicts(), Dicts()), "gave 3 things"),
        ({"a": Dicts(), "b": Dicts()}, sentence("keys-b-name-data-sets-train").pattern),
        (iter([Dicts()]), "gave an iterator"),
        (("a.csv", None), "gave a str"),
        (Dicts(0), "empty data set"),
        ((None, Dicts()), "gave a NoneType"),
        ({"x": INPUTS, "y": TARGETS[:3]}, "10 in \\['x'\\], 3 in \\['y'\\]"),
        (loader(batch_size=7), sentence("data-have-another-batch-size").pattern),
        (loader(Dicts(3), drop_last=True), sentence("has-samples-fewer-than-batch-size").pattern),
        (
            loader(sampler=DistributedSampler(Dicts(), num_replicas=2, rank=0)),
            "has a DistributedSampler",
        ),
    ],
    ids=[
        "three",
        "names",
        "iterator",
        "file",
        "empty",
        "none",
        "lengths",
        "batch size",
        "dropped",
        "distributed",
    ],
)
def test_what_cannot_be_used_is_refused_by_name(given: Any, said: str) -> None:
    with pytest.raises((TrainingFailed, ValueError), match=said):
        loaded(given)


@pytest.mark.parametrize(
    ("given", "changes", "said"),
    [
        (Streamed(), {"loader_workers": 3}, sentence("one-loader-worker-can-read-ahead").pattern),
        (Streamed(), {"schedule": "cosine"}, sentence("cosine-needs-number-of-steps").pattern),
        ((iter(Streamed()), None), {}, sentence("read-only-once-and-run-has-two-epochs").pattern),
    ],
    ids=["workers", "schedule", "read once"],
)
def test_what_a_stream_cannot_do_is_refused_by_name(
    given: Any, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnusableData, match=said):
        loaded(given, spec=changes)


def test_data_of_tensorflow_are_refused_by_name() -> None:
    stranger = type("PrefetchDataset", (), {"__module__": "tensorflow.python.data"})()
    with pytest.raises(UnusableData, match=r"PrefetchDataset of TensorFlow.*Keras recipe"):
        loaded((stranger, None))


def test_a_tensor_data_set_with_its_own_samples_is_asked_for_them() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            return {"number": 2 * self.tensors[1][index]}

    data = loaded(Doubled(torch.from_numpy(INPUTS), torch.from_numpy(TARGETS)))
    assert sorted(numbers(epoch_of(data))) == [2 * number for number in range(COUNT)]


class SlowlyCopied:
    """A batch that takes 10 ms to its device."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: Any) -> Any:
        return SlowlyCopied(self.samples[index])

    def to(self, device: torch.device) -> SlowlyCopied:
        time.sleep(0.01)
        return self


@pytest.mark.parametrize("dataset", [Dicts(), Streamed()], ids=["by index", "stream"])
def test_the_copy_to_the_device_is_part_of_the_wait_for_data(dataset: Dataset[Any]) -> None:
    data = loaded(DataLoader(dataset, 4, collate_fn=SlowlyCopied))
    sharder = data.train_sharder(parallel())
    for batch in range(2):
        assert list(sharder.local_batches(0, batch))
    assert sharder.waiting_seconds >= 0.02
    sharder.close()


@pytest.mark.parametrize(
    ("form", "workers"),
    [
        ("data set", (0, 1, 2)),
        ("loader", (0, 1, 2)),
        ("stream", (0, 1)),
        ("function", (0, 1)),
        ("dictionary of arrays", ()),
    ],
)
@pytest.mark.usefixtures("processes")
def test_the_training_data_can_be_loaded_by_other_numbers_of_workers(
    form: str, workers: tuple[int, ...]
) -> None:
    data = loaded((FORMS[form], None), is_equal=_never_asked)
    for count in (0, 1, 2):
        sharder = data.sharder_with(count, parallel())
        assert (sharder is not None) is (count in workers)
        if sharder is not None:
            assert next(sharder.local_batches(0, 0)).samples == 4
            sharder.close()


def _never_asked(number: int) -> bool:
    raise AssertionError("the ranks measure at their own pace: none asks the others")


def test_what_is_read_once_is_not_read_for_a_measurement() -> None:
    data = loaded((iter(Streamed()), None), spec={"epochs": 1})
    assert data.sharder_with(0, parallel()) is None


def test_the_workers_of_a_loader_are_known() -> None:
    assert loaded((loader(num_workers=2), None)).own_loader_workers == 2
    assert loaded((Dicts(), None)).own_loader_workers == 0
