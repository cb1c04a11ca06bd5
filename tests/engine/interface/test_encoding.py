"""An argument that does not fit is refused by the sentence that a start here has for it."""

from __future__ import annotations

import msgspec
import pytest

from engine.interface.encoding import UnfitArgument, checked_argument
from engine.spec.run_spec import FIELDS, RunSpec


def test_a_setting_out_of_its_range_has_one_sentence_everywhere() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    given = msgspec.to_builtins(spec) | {"epochs": 0}
    with pytest.raises(UnfitArgument) as caught:
        checked_argument(RunSpec, given, "spec", "start")
    assert (str(caught.value), caught.value.field) == (FIELDS["epochs"].problem(0), "epochs")
    with pytest.raises(UnfitArgument, match="epochs does not fit"):
        checked_argument(RunSpec, given | {"epochs": "x"}, "spec", "start")
