"""The parts of the calls: plain states, files, schedules, batches and their shares."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.script_listener import IN_SCRIPT
from tests.support.sentences import sentence


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package can be imported as in a script, in this test alone."""
    monkeypatch.syspath_prepend(str(IN_SCRIPT))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "traindeck"]:
        del sys.modules[name]


def test_a_state_survives_its_file(tmp_path: Path) -> None:
    import torch
    from traindeck._state import files
    from traindeck._state.plain import from_plain, to_plain

    state = {
        "tensor": torch.arange(3.0),
        "array": np.arange(6).reshape(2, 3),
        "scalar": np.float32(0.5),
        "nested": [1, (2.5, None), {"a": b"x", 3: {True}}],
        "random": random.Random(1).getstate(),
        "big": 2**100,
    }
    files.write(str(tmp_path), 0, {"state": to_plain(state, "state")})
    found = from_plain(files.read(str(tmp_path), 0)["state"])
    assert torch.equal(found["tensor"], state["tensor"])
    assert np.array_equal(found["array"], state["array"])
    assert (found["scalar"], type(found["scalar"])) == (0.5, np.float32)
    assert [found[name] for name in ("nested", "random", "big")] == [
        state[name] for name in ("nested", "random", "big")
    ]


def test_without_torch_the_file_holds_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from traindeck._state import files
    from traindeck._state.plain import from_plain, to_plain

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    state = {"array": np.ones((2, 2)), 1: (2, [b"x", {3}], 1 + 2j), "text": "é"}
    files.write(str(tmp_path), 0, {"state": to_plain(state, "state")})
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.npz"]
    found = from_plain(files.read(str(tmp_path), 0)["state"])
    assert np.array_equal(found.pop("array"), state.pop("array"))
    assert found == state


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"f": print}, sentence("part-is-a-function")),
        ([1, object()], sentence("part-is-a-plain-object")),
        ({"a": {(): np.array([object()])}}, sentence("part-is-an-array-of-objects")),
        ({frozenset(): 1}, "the key frozenset() of s is"),
    ],
)
def test_what_no_checkpoint_can_hold_is_named(state: Any, place: str) -> None:
    from traindeck import TraindeckError
    from traindeck._state.plain import to_plain

    with pytest.raises(TraindeckError) as refused:
        to_plain(state, "s")
    assert str(refused.value).startswith(place)


def test_a_damaged_part_is_refused(tmp_path: Path) -> None:
    import torch
    from traindeck import TraindeckError
    from traindeck._state import files

    torch.save({"code": print}, tmp_path / "rank0.pt")
    with pytest.raises(TraindeckError, match=sentence("holds-code-which-is-never-run").pattern):
        files.read(str(tmp_path), 0)
    with pytest.raises(TraindeckError, match="no part of rank 1"):
        files.read(str(tmp_path), 1)


@pytest.mark.parametrize(
    ("strategy", "world", "refusal"),
    [
        ("single", 1, sentence("saved-by-more-ranks-than-run-has").pattern),
        ("ddp", 3, sentence("this-run-has-ranks", ranks=3, strategy="script/ddp").pattern),
        ("fsdp", 2, sentence("this-run-has-ranks", ranks=2, strategy="script/fsdp").pattern),
        ("ddp", 2, ""),
    ],
)
def test_other_ranks_are_refused(tmp_path: Path, strategy: str, world: int, refusal: str) -> None:
    from traindeck import TraindeckError
    from traindeck._state import checkpoint, files
    from traindeck._surroundings import Surroundings

    part = {"format": 1, "strategy": "ddp", "world_size": 2}
    files.write(str(tmp_path), 0, part | {"kept": {"model": 1, "own": 2}})
    files.write(str(tmp_path), 1, part | {"kept": {"own": 3}})
    own = Surroundings(True, strategy, 1 if world == 2 else 0, 0, world, "", str(tmp_path))
    if refusal:
        with pytest.raises(TraindeckError, match=refusal):
            checkpoint.read(own)
    else:  # what is the same on all ranks, only rank 0 has saved
        assert checkpoint.read(own)["kept"] == {"model": 1, "own": 3}


def test_names_become_series() -> None:
    from traindeck._figures import series_of

    names = ["loss", "lr", "val_loss", "validation_acc", "test_acc", "gan/d", "value"]
    assert [series_of(name) for name in names] == [
        "train/loss",
        "train/learning_rate",
        "validation/loss",
        "validation/acc",
        "test/acc",
        "gan/d",
        "train/value",
    ]


def test_a_schedule_knows_what_is_due() -> None:
    from traindeck._schedule import Schedule

    schedule = Schedule()
    schedule.follow({"steps": 3, "epochs": 2, "best": "loss", "lower_is_better": True})
    assert [sorted(schedule.due(step - 1, step)) for step in range(1, 7)] == [
        [], [], ["steps"], [], [], ["steps"]
    ]  # fmt: skip
    losses = [0.5, 0.4, 0.6, float("nan")]
    due = [schedule.epoch_ended(n, {"validation/loss": v}) for n, v in enumerate(losses, start=1)]
    assert due == [{"best"}, {"best", "epochs"}, set(), {"epochs"}]


def test_a_batch_is_divided_by_its_samples() -> None:
    from traindeck import TraindeckError
    from traindeck._source import IterableSource, Part

    batches = [{"x": np.arange(5), "labels": list("abcde")}]
    parts = []
    for rank in (0, 1):
        source = IterableSource(batches, rank, 2, True)
        source.begin(0, 0)
        (whole,) = source.batches()
        own = source.divide(whole)
        parts.append((own["x"].tolist(), own["labels"], source.part(whole)))
    assert parts == [([0, 2, 4], ["a", "c", "e"], Part(3, 5)), ([1, 3], ["b", "d"], Part(2, 5))]
    assert [part.weight(2) for _, _, part in parts] == [1.2, 0.8]
    with pytest.raises(TraindeckError, match="Say batches"):
        IterableSource(batches, 0, 2, None).begin(0, 0)


def test_a_generator_draws_apart_and_is_skipped() -> None:
    from traindeck._source import IterableSource
    from traindeck._state.random_state import RandomState, drawing_from

    def endless() -> Iterator[float]:
        while True:
            yield random.random()

    class Data:
        def __iter__(self) -> Iterator[float]:
            return endless()

    start = RandomState.now()
    source = IterableSource(Data(), 0, 1, None)
    source.begin(0, 0)
    found = []
    for _, value in zip(range(4), source.batches(), strict=False):
        found.append(value)
        random.random()  # as dropout would
    again = IterableSource(Data(), 0, 1, None)
    with drawing_from(start):
        again.begin(2, 0)
    assert [next(again.batches()), next(again.batches())] == found[2:]
