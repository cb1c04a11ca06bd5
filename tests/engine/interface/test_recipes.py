"""What comes back of another machine: places in files that were sent are places here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.client import CannotStart
from engine.interface.encoding import Method
from engine.interface.recipes import send_recipe, try_recipe
from engine.planning.measuring_process import MeasuringEnd
from engine.planning.results import CheckResult
from engine.remote.remote_engine import remote_engine
from engine.spec.run_spec import RunSpec

THERE = "/data/received/0a1b"


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    (tmp_path / "mine.py").write_text("import nets\ndef model(): ...\ndef datasets(): ...\n")
    (tmp_path / "nets.py").write_text("SIZE = 8\n")
    return RunSpec(recipe=str(tmp_path / "mine.py"), strategy="torch/single", devices=("cpu:0",))


@pytest.fixture
def tried() -> Callable[[RunSpec, CheckResult], CheckResult]:
    """Returns what the window gets when a machine has found this."""

    def try_(spec: RunSpec, found: CheckResult) -> CheckResult:
        def call(method: Method, arguments: Mapping[str, Any]) -> object:
            if method.name == "keep_code":
                return f"{THERE}/{arguments['code'].name}"
            if method.name == "check":
                return []
            assert method.name == "measure"
            assert arguments["request"].spec.recipe == found.recipe
            arguments["tell"](found)
            return MeasuringEnd()

        return try_recipe(remote_engine("gpus", call), spec, threading.Event())

    return try_


def test_a_place_in_a_file_that_was_sent_is_one_here(
    spec: RunSpec, tried: Callable[[RunSpec, CheckResult], CheckResult]
) -> None:
    details = f'File "{THERE}/nets.py", line 2\nFile "{THERE}/mine.py", line 7'
    where = f"{THERE}/nets.py:2"
    found = CheckResult(
        f"{THERE}/mine.py",
        problem=f"{where}: wrong",
        where=where,
        details=details,
        notices=(details,),
    )
    here = tried(spec, found)
    folder = Path(spec.recipe).parent
    assert here.recipe == spec.recipe
    assert here.where == f"{folder}/nets.py:2"
    assert here.problem == f"{folder}/nets.py:2: wrong"
    mapped = f'File "{folder}/nets.py", line 2\nFile "{folder}/mine.py", line 7'
    assert (here.details, here.notices) == (mapped, (mapped,))


@pytest.mark.parametrize("where", ["/usr/lib/torch/nn.py:7", f"{THERE}/other.py:1", ""])
def test_no_other_file_there_is_taken_for_one_of_here(
    spec: RunSpec, tried: Callable[[RunSpec, CheckResult], CheckResult], where: str
) -> None:
    assert tried(spec, CheckResult(f"{THERE}/mine.py", where=where)).where == ""
    digits = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    assert tried(digits, CheckResult("digits", where=where)).where == ""


def test_a_module_that_is_too_large_to_be_sent_is_refused_by_name(spec: RunSpec) -> None:
    module = Path(spec.recipe).with_name("nets.py")
    module.write_bytes(b"#" * (9 * 2**20))
    with pytest.raises(CannotStart, match=r"nets\.py, which mine\.py imports, cannot be sent"):
        send_recipe(remote_engine("gpus", lambda *_: pytest.fail("it was sent")), spec)
