"""Loops of other shapes resume bit for bit, and the oldest Python that a script may have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.resources.in_script.traindeck.conftest import Bare, Start
from tests.support.other_pythons import other_python
from tests.support.sentences import sentence

PYTHON_39 = other_python("3.9")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "shape",
    [
        "gan",
        "accumulate",
        "zip",
        "break",
        "steps",
        "sampler",
        "weighted",
        "stream",
        "nested",
        "no epochs",
    ],
)
def test_a_loop_of_this_shape_resumes(start: Start, bare: Bare, shape: str) -> None:
    run = start("shapes.py", shape, every={"steps": 1})
    assert run.wait() == [0], run.output()
    assert run.lines() == bare("shapes.py", shape)
    steps = 6 if shape == "accumulate" else 24 if shape == "break" else 15
    assert run.frames("points")[-1]["step"] == steps  # optimizer steps
    # Within the first epoch, at its end, and within the second one.
    for step in (4, 5, 8) if shape != "accumulate" else (4,):
        again = start("shapes.py", shape, folder=f"from-{step}", checkpoint=run.saved(step))
        assert again.wait() == [0], again.output()
        done = 9 if shape == "accumulate" else step  # of 5 batches in an epoch, the last waits
        assert again.lines() == run.lines()[done:]


def test_a_step_whose_body_ends_with_break_counts_and_is_saved(start: Start) -> None:
    run = start("shapes.py", "break in the last body", every={"steps": 4})
    assert run.wait() == [0], run.output()
    assert run.frames("points")[-1]["step"] == 4
    [saved] = run.frames("saved")
    assert (saved["step"], saved["kinds"]) == (4, ["last", "steps"])


def test_fewer_steps_than_are_done_end_at_once(start: Start, tmp_path: Path) -> None:
    script = "import sys, traindeck\ntraindeck.keep(state={})\n"
    script += "for step in traindeck.steps(int(sys.argv[1])): print(step)\n"
    (tmp_path / "count.py").write_text(script)
    run = start("count.py", "5", every={"steps": 3})
    assert run.wait() == [0], run.output()
    for steps, lines in (("2", []), ("4", ["3"])):
        again = start("count.py", steps, folder=f"to-{steps}", checkpoint=run.saved(3))
        assert (again.wait(), again.lines()) == ([0], lines), again.output()


@pytest.mark.parametrize(
    ("last", "saves"),
    [("break", True), ("return", True), ("raise ValueError", False), ("1 / 0", False)],
)
@pytest.mark.parametrize("python", [sys.executable, *filter(None, [PYTHON_39])])
def test_only_a_loop_that_the_script_leaves_on_purpose_is_saved(
    start: Start, tmp_path: Path, python: str, last: str, saves: bool
) -> None:
    """After an error, what is kept may be half changed."""
    (tmp_path / "left.py").write_text(
        "import traindeck\ntraindeck.keep(state={})\n"
        "def bar(of):\n    for one in of: yield one\n"
        "def train():\n"
        "    for step in bar(traindeck.steps(9)):\n"
        f"        if step == 2:\n            {last}\n"
        "train()\n"
    )
    run = start("left.py", python=python)
    assert run.wait() == [0 if saves else 1], run.output()
    assert [frame["kinds"] for frame in run.frames("saved")] == [["last"]] * saves


@pytest.mark.skipif(not PYTHON_39, reason="there is no Python 3.9")
def test_python_3_9_without_any_library_resumes(start: Start, bare: Bare, tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(
        """
import random, traindeck
random.seed(1)
state = {"sum": 0.0}
traindeck.keep(state=state)
for epoch in traindeck.epochs(2):
    for number, value in traindeck.batches([0.1, 0.2, 0.3], numbered=True):
        state["sum"] += value * random.random()
        traindeck.log(loss=state["sum"])
        print(epoch, number, state["sum"].hex(), flush=True)
"""
    )
    run = start("plain.py", python=PYTHON_39, every={"steps": 2})
    assert run.wait() == [0], run.output()
    assert run.lines() == bare(script, python=PYTHON_39)
    again = start("plain.py", python=PYTHON_39, folder="b", checkpoint=run.saved(4))
    assert again.wait() == [0], again.output()
    assert again.lines() == run.lines()[4:]


COUNTS = """
import traindeck
state = {"sum": 0.0}
traindeck.keep(state=state)
for epoch in traindeck.epochs(2):
    for number, value in enumerate(
        traindeck.batches([0.1, 0.2, 0.3])
    ):
        state["sum"] += number * value
        print(epoch, number, flush=True)
"""


def test_batches_that_are_counted_from_zero_are_not_resumed_within_an_epoch(
    start: Start, bare: Bare, tmp_path: Path
) -> None:
    script = tmp_path / "counts.py"
    script.write_text(COUNTS)
    run = start("counts.py", every={"steps": 1})
    assert run.wait() == [0], run.output()
    assert run.lines() == bare(script)
    [notice] = run.frames("notice")
    assert "with enumerate" in notice["text"]
    assert "numbered=True" in notice["text"]
    within = start("counts.py", folder="within", checkpoint=run.saved(2))
    assert within.wait() == [1]
    assert sentence("batches-of-epoch-are-done") in within.output()
    between = start("counts.py", folder="between", checkpoint=run.saved(3))
    assert between.wait() == [0], between.output()
    assert between.lines() == run.lines()[3:]


def test_batches_with_their_numbers_are_not_taken_for_counted(tmp_path: Path, start: Start) -> None:
    (tmp_path / "counts.py").write_text(
        "import traindeck\ntraindeck.keep(state={})\n"
        "names = list(enumerate('ab'))\n"
        "for number, value in traindeck.batches([1, 2], numbered=True): print(number)\n"
        "for number, value in enumerate(traindeck.batches([1, 2]), 5): print(number)\n"
    )
    run = start("counts.py")
    assert run.wait() == [0], run.output()
    assert run.lines() == ["0", "1", "5", "6"]
    assert not run.frames("notice")
