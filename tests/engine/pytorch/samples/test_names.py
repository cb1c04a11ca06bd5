"""The names of samples: index and file, through the data sets that wrap each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from engine.pytorch.samples.names import (
    NamesBatch,
    SamplesDiffer,
    difference,
    place_of,
    sample_name,
)
from tests.support.sentences import sentence


class Folder(Dataset[int]):
    """A data set that knows its files in one of the usual ways."""

    def __init__(self, attribute: str, files: Any) -> None:
        setattr(self, attribute, files)
        self._count = len(files)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        return index


class Hostile(Dataset[int]):
    """A data set whose attributes fail."""

    @property
    def samples(self) -> Any:
        raise RuntimeError("not now")


PICTURES = [(f"/data/{k}.png", 0) for k in range(4)]


@pytest.mark.parametrize(
    ("dataset", "index", "name"),
    [
        (Folder("samples", PICTURES), 2, "sample 2 (/data/2.png)"),
        (Folder("imgs", PICTURES), 2, "sample 2 (/data/2.png)"),
        (Folder("paths", [Path("/a"), Path("/b")]), 1, "sample 1 (/b)"),
        (Subset(Folder("samples", PICTURES), [3, 1]), 0, "sample 0 (/data/3.png)"),
        (
            ConcatDataset([Folder("samples", PICTURES), Folder("files", ["/x", "/y"])]),
            5,
            "sample 5 (/y)",
        ),
        (Folder("samples", torch.ones(4)), 2, "sample 2"),
        (Hostile(), 2, "sample 2"),
        (None, 2, "sample 2"),
    ],
    ids=["samples", "imgs", "paths", "subset", "concatenation", "numbers", "hostile", "nothing"],
)
def test_a_sample_is_named_by_its_index_and_file(dataset: Any, index: int, name: str) -> None:
    assert sample_name(dataset, index) == name


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (
            [(torch.ones(3), 1), (torch.ones(4), 1)],
            sentence("part-of-sample-has-shape-and-of-sample"),
        ),
        (
            [{"a": torch.ones(3)}, {"b": torch.ones(3)}],
            sentence("part-of-sample-has-shape-and-of-sample-it-is"),
        ),
        ([(1, 2), None], sentence("data-set-gave-none-for-sample")),
        ([torch.ones(2), torch.ones(3)], sentence("value-of-sample-has-shape")),
    ],
    ids=["shape", "keys", "none", "alone"],
)
def test_two_samples_that_differ_are_named(samples: list[Any], said: str) -> None:
    assert difference(samples, None, [7, 5]).startswith(said)


def test_samples_that_are_alike_have_no_difference() -> None:
    assert difference([(torch.ones(3), 1), (torch.zeros(3), 2)], None, [0, 1]) == ""


def test_the_sentence_of_another_process_is_found_in_its_traceback() -> None:
    sent = 'Caught it.\n  File "x", line 3\nengine.names.SamplesDiffer: Two samples differ.\n'
    assert str(SamplesDiffer(sent)) == "Two samples differ."
    assert str(SamplesDiffer("Two samples differ.")) == "Two samples differ."


def test_an_error_in_a_batch_names_it_and_its_shapes() -> None:
    batch = {"image": torch.ones(2, 3), "label": 4}
    with pytest.raises(ValueError, match="bad") as caught, NamesBatch(0, "the epoch", batch):
        raise ValueError("bad")
    assert caught.value.__notes__ == [sentence("in-batch-of-epoch-image")]


def test_a_batch_of_many_parts_is_named_in_short() -> None:
    with pytest.raises(ValueError, match="bad") as caught, NamesBatch(6, "it", list(range(9))):
        raise ValueError("bad")
    (note,) = caught.value.__notes__
    assert note.startswith(sentence("in-batch-of-it-is-number"))
    assert note.endswith(sentence("part-is-a-number-and-3-more"))


def test_a_complete_sentence_gets_no_note() -> None:
    with pytest.raises(SamplesDiffer) as caught, NamesBatch(0, "the epoch", torch.ones(1)):
        raise SamplesDiffer("Two samples differ.")
    assert not hasattr(caught.value, "__notes__")


def test_the_code_that_makes_the_samples_has_a_place() -> None:
    place = place_of(Subset(Folder("samples", PICTURES), [0]), lambda file: file == Path(__file__))
    file, _, line = place.rpartition(":")
    assert file == __file__
    assert "__getitem__" in Path(__file__).read_text().splitlines()[int(line) - 1]
    assert place_of(Subset(Folder("samples", PICTURES), [0]), lambda file: False) == ""
