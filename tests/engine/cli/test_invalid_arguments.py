"""Nonsense on the command line: one sentence on standard error, exit code 2, nothing started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.system import paths
from main import main
from tests.support.sentences import sentence


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command line says when it refuses `arguments`."""
    try:
        code = main(arguments)
    except SystemExit as end:  # argparse leaves in its own way
        code = int(end.code or 0)
    captured = capsys.readouterr()
    assert code == 2
    if "--json" in arguments:
        refusal = json.loads(captured.out)
        assert refusal["state"] == "refused"
        assert [problem["text"] for problem in refusal["problems"]] == [captured.err.strip()]
    else:
        assert captured.out == ""
    assert paths.run_ids() == []
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fly"], "There is no command 'fly'"),
        (["show"], sentence("following-arguments-are-required-id")),
        (
            ["train", "--epochs", "many"],
            sentence("named-must-be-whole-number", name="--epochs", value="many"),
        ),
        (["train", "--epochs", "9" * 30], sentence("epochs-must-be-at-most-the-largest")),
        (["train", "--epochs", "9" * 9999], sentence("epochs-must-be-whole-number")),
        (["train", "--epochs", "0"], sentence("epochs-must-be-at-least")),
        (["train", "--batch-size", "0"], sentence("batch-size-must-be-at-least-1-not", value=0)),
        (
            ["train", "--learning-rate", "fast"],
            sentence("named-must-be-number", name="--learning-rate", value="fast"),
        ),
        (["train", "--learning-rate", "nan"], sentence("learning-rate-must-be-finite-number")),
        (["train", "--learning-rate", "1e999"], sentence("learning-rate-must-be-smaller-number")),
        (["train", "--seed", "-1"], sentence("seed-must-be-at-least")),
        (
            ["train", "--precision", "bf17"],
            sentence("precision-must-be-one-of-default"),
        ),
        (
            ["train", "--clip-norm", "x"],
            sentence("named-must-be-number", name="--clip-norm", value="x"),
        ),
        (["train", "--keep-checkpoints", "0"], sentence("keep-checkpoints-must-be-at-least")),
        (["train", "--compile=yes"], sentence("ignored-explicit-argument-yes")),
        (["train", "--name", "\udcff"], sentence("holds-characters-that-cannot-be-shown")),
        (["train", "--recipe", "nope"], sentence("there-is-no-built-in-recipe", recipe="nope")),
        (["train", "--recipe", "no/such.py"], "There is no recipe file"),
        (["train", "--strategy", "nope"], sentence("there-is-no-strategy", strategy="nope")),
        (["train", "--set", "width"], sentence("set-takes-value-not-name-alone")),
        (
            ["train", "--set", "width=wide"],
            sentence("named-must-be-whole-number", name="width", value="wide"),
        ),
        (["train", "--set", "colour=red"], sentence("digits-has-no-setting-colour")),
        (["train", "--devices", "cpu:0,"], "has an empty entry"),
        (["train", "--devices", "cpu:64"], "There is no device cpu:64"),
        (["train", "--devices", "tpu:0"], "'tpu:0' names no device"),
        (["train", "--devices", "cpu:0,cpu:00"], "cpu:0 is chosen 2 times"),
        pytest.param(
            ["train", "--devices", "GPU-0000"],
            sentence("gpu-is-not-on-this-machine"),
            marks=pytest.mark.processes,
        ),
        (["train", "--strategy", "single", "--devices", "cpu:0,cpu:1"], "trains on 1 device"),
        *(
            ([command, run_id], f"There is no run {run_id}")
            for command in (
                "show",
                "attach",
                "stop",
                "pause",
                "resume",
                "checkpoint",
                "empty-cache",
            )
            for run_id in ("7", "../7")
        ),
        (["show", "7", "--json"], "There is no run 7"),
    ],
    ids=lambda value: (
        " ".join(value)[:50].encode("ascii", "replace").decode() if isinstance(value, list) else ""
    ),
)
def test_nonsense_gets_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if arguments[0] == "train" and "--devices" not in arguments:
        arguments = [*arguments, "--devices", "cpu:0"]
    text = refused(arguments, capsys)
    assert said in text
    assert "Traceback" not in text


def test_a_broken_recipe_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "broken.py"
    recipe.write_text("import torch\ndef model(:\n")
    text = refused(["train", "--recipe", str(recipe), "--devices", "cpu:0"], capsys)
    assert text == sentence("recipe-has-syntax-error-in-line", recipe=recipe)


def test_every_problem_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(["train", "--devices", "cpu:0", "--epochs", "0", "--batch-size", "-3"], capsys)
    assert text.splitlines() == [
        sentence("batch-size-must-be-at-least-1-not", value="-3"),
        sentence("epochs-must-be-at-least"),
    ]
