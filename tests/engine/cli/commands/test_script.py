"""`run`: the spec of a command, its refusals in sentences, and its equivalent command."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

import main
from engine import client
from engine.cli.commands import script
from engine.facts.equivalent_command import resume_command, train_command
from engine.spec.run_spec import RunSpec
from tests.support.sentences import sentence

TORCH = "import torch.distributed\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "spread.py").write_text(TORCH)
    (tmp_path / "keras_workers.py").write_text("tf.distribute.MultiWorkerMirroredStrategy()\n")
    (tmp_path / "calls.py").write_text("import torch, traindeck\ntraindeck.keep()\n")
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "fit.py").write_text(TORCH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[RunSpec]:
    specs: list[RunSpec] = []

    def start(spec: RunSpec, tags: Iterable[str] = (), planning: object = None) -> str:
        specs.append(spec)
        raise client.CannotStart(client.check(spec))

    monkeypatch.setattr(client, "start", start)
    return specs


def run(started: list[RunSpec], *arguments: str) -> RunSpec:
    main.main(["run", *arguments])
    return started.pop()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.main(["run", *arguments]) == 2
    return capsys.readouterr().err


def test_a_script_with_its_arguments(folder: Path, started: list[RunSpec]) -> None:
    spec = run(started, "--devices", "cpu:0", "--", "train.py", "--lr", "0.1", "--devices", "x")
    assert spec == RunSpec(
        recipe=str(folder / "train.py"),
        strategy="script/single",
        devices=("cpu:0",),
        command=("train.py", "--lr", "0.1", "--devices", "x"),
        working_folder=str(folder),
    )
    assert client.check(spec) == []


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("-m nets.fit --lr 1", "nets/fit.py"),
        ("python train.py", "train.py"),
        ("python3 -u -W ignore -m nets.fit", "nets/fit.py"),
        ("torchrun --nproc-per-node 2 spread.py", "spread.py"),
        ("bash -c 'echo'", "/bin/bash"),
    ],
)
def test_the_file_that_stands_for_a_command(
    folder: Path, started: list[RunSpec], words: str, script: str
) -> None:
    spec = run(started, "--devices", "cpu:0", "--", *shlex.split(words))
    assert Path(spec.recipe).name == Path(script).name
    assert spec.recipe == str(folder / script) or script == "/bin/bash"


@pytest.mark.parametrize(
    ("script", "devices", "strategy"),
    [
        ("train.py", "cpu:0", "script/single"),
        ("train.py", "cpu:0,cpu:1", "script/single"),
        ("spread.py", "cpu:0", "script/single"),
        ("spread.py", "cpu:0,cpu:1", "script/torchrun"),
        ("keras_workers.py", "cpu:0,cpu:1", "script/tf_config"),
        ("calls.py", "cpu:0,cpu:1", "script/single"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_strategy_follows_from_what_the_script_mentions(
    started: list[RunSpec], script: str, devices: str, strategy: str
) -> None:
    assert run(started, "--devices", devices, "--", script).strategy == strategy


@pytest.mark.usefixtures("folder")
def test_a_short_name_of_a_strategy(started: list[RunSpec]) -> None:
    spec = run(started, "--devices", "cpu:0,cpu:1", "--strategy", "torchrun", "--", "train.py")
    assert spec.strategy == "script/torchrun"


@pytest.mark.parametrize("value", ["--resume {latest}", "--ckpt_path={latest}", "-r"])
@pytest.mark.usefixtures("folder")
def test_how_a_script_resumes_may_look_like_an_option(started: list[RunSpec], value: str) -> None:
    command = ["train.py", "--resume-with", "-x"]
    spec = run(started, "--devices", "cpu:0", "--resume-with", value, "--", *command)
    assert spec.resume_arguments == value
    assert spec.command == tuple(command)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--devices cpu:0", "needs a command after --"),
        ("--devices cpu:0 -- nope.py", "There is no script"),
        ("--devices cpu:0 -- nope-program", sentence("there-is-no-program-nope-program")),
        ("--devices cpu:0 -- work.ipynb", "is a notebook"),
        ("--devices cpu:0 --folder nowhere -- train.py", "There is no script"),
        (
            "--devices cpu:0 --env nowhere -- train.py",
            sentence("there-is-no-environment", name="nowhere"),
        ),
        ("--devices cpu:0 --env ./nowhere/bin/python -- train.py", "There is no Python"),
        (
            "--devices cpu:0 --env nets -- train.py",
            sentence("there-is-no-environment", name="nets"),
        ),
        ("--devices cpu:0 --var 1A=2 -- train.py", "is no name of a variable"),
        ("--devices cpu:0 --var NOT_THERE_AT_ALL -- train.py", "is neither"),
        ("--devices cpu:0 --var RANK=2 -- train.py", "is set by the strategy"),
        ("--devices cpu:0 --resume-with '--x \"' -- train.py", "cannot be read"),
        ("--devices cpu:0 --resume-with '{last}' -- train.py", "know {latest} only"),
        ("--devices cpu:0 --strategy ddp -- train.py", "script/ddp is no longer there"),
        (
            "--devices cpu:0 --checkpoint-steps 3 -- train.py",
            sentence("only-with-calls-of-module-traindeck"),
        ),
        (
            "--devices cpu:0,cpu:1 --strategy torchrun -- python -m torch.distributed.run x.py",
            sentence("starts-processes-of-all-ranks-itself"),
        ),
        ("--devices cpu:0,cpu:0 -- train.py", "is chosen 2 times"),
        ("--devices cpu:99 -- train.py", "no device cpu:99"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_run_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: str, words: str
) -> None:
    text = refusal(capsys, *shlex.split(arguments))
    assert words in text
    assert "Traceback" not in text


@pytest.mark.usefixtures("folder")
def test_input_that_the_command_does_not_get_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, started: list[RunSpec]
) -> None:
    monkeypatch.setattr(script, "_has_input", lambda: True)
    run(started, "--devices", "cpu:0", "--", "train.py")
    assert sentence("standard-input-is-not-passed") in capsys.readouterr().err


@pytest.mark.usefixtures("processes")
def test_what_is_piped_in_is_input() -> None:
    code = "from engine.cli.commands.script import _has_input; print(_has_input())"
    command = [sys.executable, "-c", code]
    for given, expected in ((subprocess.PIPE, "True"), (subprocess.DEVNULL, "False")):
        done = subprocess.run(command, stdin=given, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


@pytest.mark.usefixtures("folder")
def test_a_refusal_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["run", "--json", "--devices", "cpu:0", "--", "nope.py"]) == 2
    [problem] = json.loads(capsys.readouterr().out.splitlines()[-1])["problems"]
    assert problem["field"] == "command"


@pytest.mark.usefixtures("folder")
def test_a_script_is_no_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["train", "--recipe", "train.py", "--devices", "cpu:0"]) == 2
    text = capsys.readouterr().err
    assert sentence("it-is-no-recipe-but-script") in text


def test_the_equivalent_command_is_read_back_as_the_same_spec(
    folder: Path, started: list[RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hush")
    spec = RunSpec(
        recipe=str(folder / "calls.py"),
        strategy="script/single",
        devices=("cpu:0", "cpu:1"),
        name="it's $HOME",
        command=("calls.py", "--x", "a b", "--", "-y"),
        working_folder=str(folder),
        variables={"A": "1 2", "TF_X": "3", "SOME_TOKEN": "hush"},
        stored_variables=("A",),
        interpreter="/bin/sh",
        resume_arguments="--resume {latest}",
        output_figures=False,
        max_restarts=2,
    )
    command = train_command(spec)
    assert "hush" not in command
    program, *arguments = shlex.split(command)[2:]
    assert (program, run(started, *arguments)) == ("run", spec)


def test_the_changes_of_a_resume(folder: Path) -> None:
    before = RunSpec(
        recipe=str(folder / "train.py"),
        strategy="script/single",
        devices=("cpu:0",),
        command=("train.py",),
        working_folder=str(folder),
    )
    variables = {"A": "1", "B": "hush", "TF_X": "3"}
    after = replace(
        before,
        resume_arguments="--resume {latest}",
        variables=variables,
        stored_variables=("A",),
    )
    assert shlex.split(resume_command("5", "", before, after))[2:] == [
        *("resume", "5", "--resume-with=--resume {latest}"),
        *("--stored-var", "A=1", "--var", "B", "--var", "TF_X=3"),
    ]
