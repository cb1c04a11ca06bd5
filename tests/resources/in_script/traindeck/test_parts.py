"""The parts of the calls: plain states, files, schedules, names of series."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.system.program import version
from tests.support.script_listener import IN_SCRIPT
from tests.support.sentences import sentence


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package can be imported as in a script, in this test alone."""
    monkeypatch.syspath_prepend(str(IN_SCRIPT))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "traindeck"]:
        del sys.modules[name]


def test_it_has_the_version_of_the_product() -> None:
    import traindeck

    assert traindeck.__version__ == version()


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
    files.write(str(tmp_path), {"state": to_plain(state, "state")})
    found = from_plain(files.read(str(tmp_path))["state"])
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
    files.write(str(tmp_path), {"state": to_plain(state, "state")})
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.npz"]
    found = from_plain(files.read(str(tmp_path))["state"])
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
        files.read(str(tmp_path))
    (tmp_path / "rank0.pt").unlink()
    with pytest.raises(TraindeckError, match=r"has no rank0\.pt"):
        files.read(str(tmp_path))


@pytest.mark.parametrize("tree", [{"format": 1, "kept": {}}, {"weights": 1}])
def test_a_checkpoint_that_these_calls_did_not_save_is_refused(tmp_path: Path, tree: Any) -> None:
    from traindeck import TraindeckError
    from traindeck._state import checkpoint, files

    files.write(str(tmp_path), tree)
    with pytest.raises(TraindeckError, match="was not saved by this version"):
        checkpoint.read(str(tmp_path))


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
