"""Tests `engine.worker.initial_weights`: a run writes what it has drawn, another begins with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed
from engine.worker.environment import RESUME
from engine.worker.initial_weights import share_initial_weights
from tests.support.sentences import sentence

NAME = "initial-weights.npz"


class Weight:
    """A variable of Keras, as far as it is used."""

    def __init__(self, path: str, value: npt.ArrayLike) -> None:
        self.path = path
        self._value = np.asarray(value, np.float32)
        self.shape = self._value.shape

    def numpy(self) -> npt.NDArray[np.float32]:
        return self._value

    def assign(self, value: npt.NDArray[Any]) -> None:
        self._value = np.array(value)


def model(*values: npt.ArrayLike, path: str = "dense/kernel") -> Any:
    return SimpleNamespace(weights=[Weight(path, each) for each in values])


def session(folder: Path, weights: str, rank: int = 0) -> Any:
    spec = RunSpec(recipe="a", strategy="tf/single", devices=("cpu:0",), initial_weights=weights)
    return SimpleNamespace(spec=spec, folder=folder, rank=rank)


def values(of: Any) -> list[Any]:
    return [weight.numpy().tolist() for weight in of.weights]


def test_a_run_without_them_keeps_what_it_has_drawn(tmp_path: Path) -> None:
    drawn = model([1, 2])
    share_initial_weights(drawn, session(tmp_path, ""))
    assert values(drawn) == [[1, 2]]
    assert list(tmp_path.iterdir()) == []


def test_the_second_run_begins_with_those_of_the_first(tmp_path: Path) -> None:
    share_initial_weights(model([1, 2], [[3]]), session(tmp_path, NAME))
    file = tmp_path / NAME
    assert file.stat().st_mode & 0o777 == 0o600
    other = model([7, 7], [[7]])  # Keras allows the same name twice
    share_initial_weights(other, session(tmp_path / "other", str(file), rank=1))
    assert values(other) == [[1, 2], [[3]]]


def test_only_rank_0_writes_and_a_repetition_reads(tmp_path: Path) -> None:
    share_initial_weights(model([1, 2]), session(tmp_path, NAME, rank=1))
    assert list(tmp_path.iterdir()) == []
    share_initial_weights(model([1, 2]), session(tmp_path, NAME))
    again = model([5, 5])
    share_initial_weights(again, session(tmp_path, NAME, rank=1))
    assert values(again) == [[1, 2]]


def test_a_resumed_run_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RESUME, "step-00000020")
    drawn = model([1])
    share_initial_weights(drawn, session(tmp_path, str(tmp_path / "gone.npz")))
    assert values(drawn) == [[1]]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (model([1, 2, 3]), sentence("weight-has-another-shape").pattern),
        (model([1, 2], path="b/kernel"), sentence("weight-is-missing-another-is-too-many").pattern),
    ],
)
def test_weights_that_do_not_fit_are_named(tmp_path: Path, other: Any, text: str) -> None:
    share_initial_weights(model([1, 2]), session(tmp_path, NAME))
    with pytest.raises(TrainingFailed, match=text):
        share_initial_weights(other, session(tmp_path, str(tmp_path / NAME)))


def test_a_file_that_is_gone_or_damaged_is_named(tmp_path: Path) -> None:
    file = tmp_path / NAME
    with pytest.raises(TrainingFailed, match="not there"):
        share_initial_weights(model([1]), session(tmp_path, str(file)))
    for noise in (b"", b"noise", b"PK\x03\x04noise"):
        file.write_bytes(noise)
        with pytest.raises(TrainingFailed, match="cannot be read"):
            share_initial_weights(model([1]), session(tmp_path, str(file)))
    with file.open("wb") as opened:
        np.save(opened, np.ones(3))
    with pytest.raises(TrainingFailed, match="cannot be read"):
        share_initial_weights(model([1]), session(tmp_path, str(file)))


def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / NAME
    np.savez(file, np.array([object()]))
    with pytest.raises(TrainingFailed, match="cannot be read"):
        share_initial_weights(model([1]), session(tmp_path, str(file)))
