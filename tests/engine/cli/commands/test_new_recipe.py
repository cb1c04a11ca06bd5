"""`new-recipe`: commented recipes that can be read and tried as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.spec.catalog import TEMPLATES, builtin_recipes, template_kinds
from engine.spec.recipe_file import FUNCTIONS, read_recipe
from main import main
from tests.support.sentences import sentence

LIBRARIES = {"lightning", "huggingface"}
"""Templates that need a library which not every environment has."""


def test_each_template_is_a_recipe_that_names_the_optional_functions(tmp_path: Path) -> None:
    assert {"torch", "keras"} <= set(template_kinds()) <= {"torch", "keras"} | LIBRARIES
    for kind in template_kinds():
        info = read_recipe(TEMPLATES / f"{kind}.py")
        assert (info.problem, info.framework) == ("", "keras" if kind == "keras" else "torch")
        assert info.fields, "a field of the form is shown"
    text = "".join((TEMPLATES / f"{kind}.py").read_text() for kind in ("torch", "keras"))
    assert [name for name in FUNCTIONS if f"def {name}(" not in text] == []
    assert not {"torch", "keras"} & {recipe.name for recipe in builtin_recipes()}


def test_it_is_written_once_and_never_over_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-recipe"]) == 0
    written = tmp_path / "recipe.py"
    assert written.read_text() == (TEMPLATES / "torch.py").read_text()
    said = capsys.readouterr()
    assert said.out == "recipe.py\n"
    assert sentence("check-tries-it-on-one-batch") in said.err
    written.write_text("mine")
    assert main(["new-recipe", "recipe.py", "--for", "keras", "--json"]) == 2
    assert "recipe.py exists already" in json.loads(capsys.readouterr().out)["problems"][0]["text"]
    assert written.read_text() == "mine"
    for name, phrase in (
        ("mine.txt", "name it mine.txt.py"),
        ("no/mine.py", "cannot be written"),
    ):
        assert main(["new-recipe", name]) == 2
        assert phrase in capsys.readouterr().err


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", ["torch", pytest.param("keras", marks=pytest.mark.nightly)])
def test_each_template_trains_as_it_is(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my recipe.py"
    assert main(["new-recipe", str(path), "--for", kind, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(path), "for": kind}
    assert main(["check", str(path), "--devices", "cpu:0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["problem"], found["notices"]) == (True, "", [])
    assert found["metrics"] == ["validation/accuracy", "validation/loss"]
