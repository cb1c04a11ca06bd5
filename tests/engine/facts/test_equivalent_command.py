"""The command line of a spec: read back by the program itself, it is the same spec."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import client
from engine.environments import registry
from engine.environments.registry import Environment
from engine.facts.equivalent_command import train_command
from engine.spec.run_spec import RunSpec
from engine.system import program
from main import main

PLAIN = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
MINE = """
import torch
DEFAULTS = {"epochs": 9, "batch_size": 10, "learning_rate": 0.5}
def model(depth: int = 3, wide: bool = True, note: str = "a b"): ...
def datasets(): ...
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[RunSpec]:
    specs: list[RunSpec] = []

    def start(spec: RunSpec, tags: Iterable[str] = (), planning: object = None) -> str:
        specs.append(spec)
        raise client.CannotStart([])

    monkeypatch.setattr(client, "start", start)
    return specs


def read_back(command: str, started: list[RunSpec]) -> RunSpec:
    program, *arguments = shlex.split(command)[1:]
    assert program == "main.py"
    main(arguments)
    return started.pop()


def test_tags_are_in_the_command_and_reach_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, ...]] = []

    def start(spec: RunSpec, tags: Iterable[str] = (), planning: object = None) -> str:
        given.append(tuple(tags))
        raise client.CannotStart([])

    monkeypatch.setattr(client, "start", start)
    script = RunSpec(
        recipe="/s/t.py", strategy="script/single", devices=("cpu:0",), command=("t.py",)
    )
    for spec in (PLAIN, script):
        command = train_command(spec, ("base line", "-x"))
        main(shlex.split(command)[2:])
        assert given.pop() == ("-x", "base line")


def test_only_what_differs_from_the_defaults_is_in_the_command(started: list[RunSpec]) -> None:
    defaults = read_back("python main.py train --devices cpu:0", started)
    assert train_command(defaults) == "python main.py train --devices cpu:0"


@pytest.mark.parametrize(
    "spec",
    [
        PLAIN,
        RunSpec(
            recipe="digits_keras",
            strategy="tf/mirrored",
            devices=("cpu:0", "cpu:1"),
            batch_size=33,
            epochs=1,
            learning_rate=3e-05,
            momentum=0.9,
            optimizer="sgd",
            checkpoint_minutes=0.0,
            checkpoint_best="accuracy",
            deterministic=True,
            cold_start=True,
            compile=True,
        ),
        RunSpec(
            recipe="digits",
            strategy="torch/ddp",
            devices=("GPU-0a", "GPU-1b"),
            name='it\'s $HOME; rm `x` "y"',
            learning_rate=-1e-3,
            momentum=-0.5,
            settings={"width": 8, "activation": "gelu"},
        ),
    ],
)
def test_read_back_it_is_the_same_spec(spec: RunSpec, started: list[RunSpec]) -> None:
    assert read_back(train_command(spec), started) == spec


def test_a_recipe_of_the_users_brings_its_own_defaults(
    tmp_path: Path, started: list[RunSpec]
) -> None:
    file = tmp_path / "my recipe.py"
    file.write_text(MINE)
    spec = RunSpec(
        recipe=str(file),
        strategy="torch/single",
        devices=("cpu:0",),
        batch_size=10,
        epochs=5,
        learning_rate=0.5,
        settings={"wide": False, "note": "x = 'y'"},
    )
    command = train_command(spec)
    assert "--batch-size" not in command
    assert "--epochs 5" in command
    assert read_back(command, started) == spec


def test_on_another_machine_it_names_that_and_the_python_there(traindeck_home: Path) -> None:
    registry.add(Environment("mine", "/mine/bin/python", default_for=("torch",)))
    command = train_command(PLAIN, (), "gpus")
    assert "train --on gpus" in command
    assert "--env traindeck" in command  # the default there is not known here
    there = replace(PLAIN, interpreter="/mine/bin/python")
    assert "--env /mine/bin/python" in train_command(there, (), "gpus")


def test_a_script_that_is_sent_is_named_by_its_path_and_has_no_folder_there(
    traindeck_home: Path,
) -> None:
    registry.add(Environment("mine", "/there/python"))  # which is no name of that machine
    spec = RunSpec(
        recipe="/s/t.py",
        strategy="script/single",
        devices=("cpu:0",),
        command=("-u", "t.py", "--lr", "2"),
        working_folder="/s",
        interpreter="/there/python",
    )
    command = train_command(spec, (), "gpus")
    assert "run --on gpus" in command
    assert command.endswith("-- -u /s/t.py --lr 2")
    assert "--folder" not in command
    assert "--env /there/python" in command
    assert "--env" not in train_command(replace(spec, interpreter=""), (), "gpus")


def test_the_command_of_another_machine_is_that_of_the_asking_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "_asked_from", ("python main.py", "gpus"))
    words = shlex.split(train_command(PLAIN))
    assert words[:5] == ["python", "main.py", "train", "--on", "gpus"]
