"""`env`, and `--env` of `train`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import client
from engine.environments import checks, creation, registry
from engine.environments.registry import Environment, Facts
from engine.facts.equivalent_command import train_command
from engine.interface import local_environments
from engine.scripts.interpreters import find_interpreter, interpreter_of
from engine.spec.run_spec import RunSpec
from engine.system.cancelled import Cancelled
from main import main
from tests.engine.facts.test_equivalent_command import read_back, started
from tests.support.sentences import sentence

__all__ = ["started"]

FACTS = Facts("3.12.4", {"tensorflow": "2.21.0"}, {"tensorflow": "12.5.1"}, {"tensorflow": 2})


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    program = tmp_path / "my env" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(checks, "check", lambda python, **_: FACTS)
    return str(program)


def test_an_environment_is_added_listed_used_and_removed(
    python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(Path(python).parents[1])
    assert main(["env", "add", "tf gpu", "--python", folder]) == 0
    said = capsys.readouterr()
    assert sentence("it-has-python-tensorflow-for-cuda") in said.out
    assert "env use 'tf gpu' --for tensorflow" in said.err
    assert main(["env", "use", "tf gpu"]) == 0
    assert registry.default_interpreter("tensorflow") == python
    capsys.readouterr()
    assert main(["env", "list", "--json"]) == 0
    own, mine = json.loads(capsys.readouterr().out)
    assert (own["name"], own["default_for"]) == ("traindeck", ["torch"])
    assert (mine["name"], mine["python"], mine["problem"]) == ("tf gpu", python, "")
    assert main(["env", "use", "tf gpu", "--for", "torch"]) == 2
    assert "has no PyTorch" in capsys.readouterr().err
    assert main(["env", "remove", "tf gpu"]) == 0
    assert "its files were left alone" in capsys.readouterr().out
    assert Path(python).exists()
    assert registry.environments() == []


def test_a_list_with_a_framework_of_a_newer_version_is_shown_and_kept(
    python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(Environment("a", python, default_for=("torch", "jax"), facts=FACTS))
    assert main(["env", "list"]) == 0
    assert "jax" in capsys.readouterr().out
    registry.use("a", ["tensorflow"])
    assert "jax" in registry.get("a").default_for


def test_what_has_a_problem_is_not_recommended(
    python: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = Facts("3.12.4", {"torch": "2.13.0"}, problems=("It has no msgspec.",))
    monkeypatch.setattr(checks, "check", lambda python, **_: lacking)
    assert main(["env", "add", "a", "--python", python]) == 0
    said = capsys.readouterr().err
    assert "It has no msgspec." in said
    assert "env use" not in said


def test_an_environment_of_a_moved_data_folder_is_forgotten_and_not_called_deleted(
    python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(Environment("a", python, is_ours=True))
    assert main(["env", "remove", "a"]) == 0
    assert "its files were left alone" in capsys.readouterr().out
    assert Path(python).exists()


def test_a_damaged_list_does_not_keep_a_run_from_a_python_that_is_given_by_its_path(
    python: str, traindeck_home: Path, tmp_path: Path
) -> None:
    traindeck_home.mkdir(exist_ok=True)
    (traindeck_home / "environments.json").write_text("{")
    assert str(find_interpreter(python, tmp_path)) == python
    assert interpreter_of("traindeck", tmp_path) == ""
    with pytest.raises(
        registry.UnreadableRegistry, match=sentence("fsck-repair-begins-it-anew").pattern
    ):
        find_interpreter("a", tmp_path)


def test_a_check_is_remembered_and_fails_with_a_problem(
    python: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(Environment("a", python))
    assert main(["env", "check", "a"]) == 0
    assert registry.get("a").facts == FACTS
    broken = Facts("3.12.4", problems=("It has no numpy.",))
    monkeypatch.setattr(checks, "check", lambda python, **_: broken)
    assert main(["env", "check", "a"]) == 1
    assert "It has no numpy." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "a"], "Say which environment"),
        (["add", "a/b", "--python", "/usr"], "cannot hold '/'"),
        (["add", "a", "--python", "/nowhere"], sentence("there-is-no-python-nowhere")),
        (["add", "a", "--create", "torch", "tensorflow[and-cuda]"], "an environment for each"),
        (["check", "a"], sentence("there-is-no-environment", name="a")),
        (["remove", "a"], sentence("there-is-no-environment", name="a")),
        (["use", "a"], sentence("there-is-no-environment", name="a")),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["env", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_creation_that_is_interrupted_says_that_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def create(*_: object, **__: object) -> Environment:
        raise Cancelled

    monkeypatch.setattr(creation, "create", create)
    assert main(["env", "add", "a", "--create", "torch"]) == 130
    assert "nothing of it is left" in capsys.readouterr().err


def test_the_environment_of_an_active_run_is_not_removed(
    python: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(Environment("a", python))

    class Run:
        id = "7"
        spec = RunSpec(recipe="r", strategy="s", devices=("cpu:0",), interpreter=python)

        class state:
            is_over = False

    monkeypatch.setattr(local_environments.client, "runs", lambda: [Run])
    assert main(["env", "remove", "a"]) == 2
    assert sentence("run-uses-environment") in capsys.readouterr().err


def test_a_run_uses_the_environment_that_it_names_or_that_of_its_framework(
    python: str, started: list[RunSpec]
) -> None:
    registry.add(Environment("my tf", python))
    named = read_back("python main.py train --env 'my tf' --devices cpu:0", started)
    assert named.interpreter == python
    assert train_command(named) == "python main.py train --devices cpu:0 --env 'my tf'"
    registry.use("my tf", ("torch",))
    usual = read_back("python main.py train --devices cpu:0", started)
    assert usual.interpreter == python
    assert train_command(usual) == "python main.py train --devices cpu:0"
    own = read_back("python main.py train --devices cpu:0 --env traindeck", started)
    assert own.interpreter == ""
    assert train_command(own) == "python main.py train --devices cpu:0 --env traindeck"
    keras = "python main.py train --recipe digits_keras --strategy tf/single --devices cpu:0"
    assert read_back(keras, started).interpreter == ""


def test_an_environment_that_is_gone_is_named(
    python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(Environment("a", python))
    Path(python).unlink()
    assert main(["train", "--env", "a", "--devices", "cpu:0"]) == 2
    assert sentence("choose-another-environment") in capsys.readouterr().err
    registry.use("a", ("torch",))
    assert main(["train", "--devices", "cpu:0"]) == 2
    assert sentence("choose-another-environment") in capsys.readouterr().err
    assert client.runs() == []
