"""Recipes are read, never run."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from engine.spec.field_info import FieldInfo, Setting
from engine.spec.recipe_file import SCRIPT, RecipeInfo, no_recipe, read_recipe, read_script
from tests.support.sentences import sentence

MINIMAL = """
import torch
def model(): ...
def datasets(): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def read(folder: Path, source: str) -> RecipeInfo:
    path = folder / "example.py"
    path.write_text(dedent(source))
    return read_recipe(path)


def fields(folder: Path, arguments: str) -> list[tuple[str, str, Setting]]:
    info = read(folder, f"import torch\ndef model({arguments}): ...\ndef datasets(): ...")
    assert info.problem == ""
    return [(field.name, field.type, field.default) for field in info.fields]


def test_everything_that_a_recipe_says_about_itself(folder: Path) -> None:
    info = read(
        folder,
        '''
        """A network
        for pictures.

        More words.
        """
        import torch
        from typing import Literal
        DEFAULTS = {"epochs": 7, "batch_size": 32, "learning_rate": 1}

        def model(width: int = 8, activation: Literal["relu", "tanh"] = "relu"):
            """Width is the number of channels."""

        def datasets(*, share: float = 0.2): ...
        ''',
    )
    assert info == RecipeInfo(
        name="example",
        path=str(folder / "example.py"),
        builtin=False,
        functions=("model", "datasets"),
        framework="torch",
        doc="A network for pictures.",
        fields=(
            FieldInfo("width", "int", 8, (), "Width is the number of channels."),
            FieldInfo(
                "activation", "choice", "relu", ("relu", "tanh"), "Width is the number of channels."
            ),
            FieldInfo("share", "float", 0.2),
        ),
        epochs=7,
        batch_size=32,
        learning_rate=1.0,
    )


@pytest.mark.parametrize(
    "entries",
    [
        "Args:\n    p: No.\n    width (int): *Channels* of\n        the **first** layer.\n    q: -",
        "Parameters\n----------\nwidth : int, optional\n    Channels of the first layer.\np : str",
        ":param p: No.\n:param int width: Channels of the\n    ``first`` layer.\n:return: A.",
        "More words, also about width: none of them are its entry.",
        "width:",
    ],
)
def test_a_setting_is_described_in_plain_words(folder: Path, entries: str) -> None:
    text = indent(f"A net of `width` channels.\n\n{entries}", "    ").lstrip()
    source = f'import torch\ndef model(width=8):\n    """{text}"""\ndef datasets(): ...'
    [field] = read(folder, source).fields
    has_entry = "first" in entries
    assert field.doc == (
        "Channels of the first layer." if has_entry else "A net of width channels."
    )


def test_reading_a_recipe_does_not_run_it(folder: Path) -> None:
    assert read(folder, MINIMAL + "raise SystemExit").problem == ""


def test_a_recipe_without_defaults_gets_the_usual_ones(folder: Path) -> None:
    info = read(folder, MINIMAL)
    assert (info.epochs, info.batch_size, info.learning_rate) == (5, 128, 1e-3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("flag: bool = True", [("flag", "bool", True)]),
        ("flag=False", [("flag", "bool", False)]),
        ("n=3", [("n", "int", 3)]),
        ("n=-3", [("n", "int", -3)]),
        ("rate: float = 0", [("rate", "float", 0)]),
        ("rate=1e-3", [("rate", "float", 1e-3)]),
        ("text='x'", [("text", "str", "x")]),
        ("a, b=1, *, c=2, d", [("b", "int", 1), ("c", "int", 2)]),
        ("a, /, b=1", [("b", "int", 1)]),
        ("*rest, **more", []),
        ("nothing=None", []),
        ("several=(1, 2)", []),
        ("computed=len('abc')", []),
        ("unhashable={[]: 1}", []),
        ("kind: Literal['a', b] = 'a'", [("kind", "str", "a")]),
        ("kind: Literal[None, 'a'] = 'a'", [("kind", "str", "a")]),
        ("kind: Literal['a', 'b'] = 'c'", []),
        ("outputs=1, targets=2, parameters=3, learning_rate=4", []),
    ],
)
def test_arguments_with_simple_defaults_are_settings(
    folder: Path, arguments: str, expected: list[tuple[str, str, Setting]]
) -> None:
    assert fields(folder, arguments) == expected


def test_count_is_a_setting_unless_stages_gets_it(folder: Path) -> None:
    text = "import torch\ndef model(): ...\ndef datasets(count=35): ...\n"
    assert [field.name for field in read(folder, text).fields] == ["count"]
    assert not read(folder, f"{text}def stages(model, count): ...\n").fields


def test_a_setting_of_two_functions_is_one_setting(folder: Path) -> None:
    info = read(folder, "import torch\ndef model(size=8): ...\ndef datasets(size=8): ...")
    assert [field.name for field in info.fields] == ["size"]


@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("import torch", "torch"),
        ("from torch import nn", "torch"),
        ("import torch.nn as nn", "torch"),
        ("import keras", "keras"),
        ("from keras.layers import Dense", "keras"),
        ("import keras\nimport tensorflow", "keras"),
        ("import torchvision\nimport keras", "keras"),
    ],
)
def test_the_framework_is_the_one_that_is_imported(
    folder: Path, source: str, framework: str
) -> None:
    assert read(folder, f"{source}\ndef model(): ...\ndef datasets(): ...").framework == framework


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("def model(:", sentence("has-syntax-error-in-line")),
        ("import torch\ndef datasets(): ...", "has no function model()"),
        ("import torch\ndef model(): ...", sentence("has-no-function-datasets")),
        ("def model(): ...\ndef datasets(): ...", sentence("imports-neither-torch-nor-keras")),
        (MINIMAL + "import keras", sentence("imports-both-keras-and-torch")),
        (MINIMAL + "DEFAULTS = dict(epochs=3)", "DEFAULTS in the recipe"),
        (MINIMAL + "DEFAULTS = {'epochs': 'many'}", "DEFAULTS in the recipe"),
        (MINIMAL + "DEFAULTS = {'learning_rte': 0.1}", sentence("did-you-mean-learning-rate")),
        (MINIMAL + "DEFAULTS = {'width': 64}", sentence("has-key-width-which-means-nothing")),
        (
            "import torch\ndef model(size=8): ...\ndef datasets(size=9): ...",
            sentence("two-functions-have-setting-size"),
        ),
    ],
)
def test_what_is_wrong_with_a_recipe_is_a_sentence(folder: Path, source: str, phrase: str) -> None:
    problem = read(folder, source).problem
    assert phrase in problem
    assert str(folder / "example.py") in problem


def test_a_missing_recipe_is_a_problem_and_no_error(folder: Path) -> None:
    assert "There is no recipe file" in read_recipe(folder / "gone.py").problem


def test_a_recipe_that_is_no_text_is_a_problem_and_no_error(folder: Path) -> None:
    path = folder / "binary.py"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in read_recipe(path).problem


def test_a_built_in_recipe_is_referred_to_by_name_and_another_by_path(folder: Path) -> None:
    path = folder / "example.py"
    path.write_text(MINIMAL)
    assert read_recipe(path, builtin=True).reference == "example"
    assert read_recipe(path).reference == str(path)


FIELDS = {
    "flag": FieldInfo("flag", "bool", True),
    "count": FieldInfo("count", "int", 1),
    "rate": FieldInfo("rate", "float", 0.5),
    "text": FieldInfo("text", "str", ""),
    "pick": FieldInfo("pick", "choice", 1, (1, 2, "many")),
}


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("flag", "true", True),
        ("flag", " Yes ", True),
        ("flag", "off", False),
        ("flag", "0", False),
        ("count", " -7 ", -7),
        ("rate", "1e-3", 1e-3),
        ("rate", "2", 2.0),
        ("text", " a b ", "a b"),
        ("pick", "2", 2),
        ("pick", "many", "many"),
    ],
)
def test_text_becomes_a_value(field: str, text: str, value: Setting) -> None:
    parsed = FIELDS[field].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("flag", "maybe", sentence("flag-must-be-true-or-false")),
        ("count", "1.5", sentence("named-must-be-whole-number", name="count", value="1.5")),
        ("rate", "fast", sentence("named-must-be-number", name="rate", value="fast")),
        ("pick", "3", sentence("pick-must-be-one-of-many")),
    ],
)
def test_text_that_is_no_value_is_refused_with_a_sentence(field: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        FIELDS[field].parse(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [("flag", False), ("count", 3), ("rate", 3), ("rate", 0.1), ("text", "x"), ("pick", 2)],
)
def test_a_value_that_fits(field: str, value: Setting) -> None:
    assert FIELDS[field].problem(value) == ""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("flag", 1),
        ("count", True),
        ("count", 1.5),
        ("rate", True),
        ("rate", "x"),
        ("text", 1),
        ("pick", 3),
    ],
)
def test_a_value_that_does_not_fit(field: str, value: Setting) -> None:
    assert FIELDS[field].problem(value).startswith(f"{field} must be ")


def test_defaults_may_be_annotated(tmp_path: Path) -> None:
    recipe = tmp_path / "annotated.py"
    recipe.write_text(MINIMAL + "DEFAULTS: dict[str, int] = {'epochs': 3}\n")
    assert read_recipe(recipe).epochs == 3


def test_a_recipe_says_which_way_its_metrics_are_better(tmp_path: Path) -> None:
    recipe = tmp_path / "directed.py"
    recipe.write_text(MINIMAL + "METRIC_DIRECTIONS = {'novelty': 'min', 'loss': 'max'}\n")
    assert read_recipe(recipe).metric_directions == {"novelty": "min", "loss": "max"}
    recipe.write_text(MINIMAL + "METRIC_DIRECTIONS = {'validation/mae': 'max'}\n")
    assert read_recipe(recipe).metric_directions == {"mae": "max"}
    recipe.write_text(MINIMAL)
    assert read_recipe(recipe).metric_directions == {}


@pytest.mark.parametrize("written", ["{'mae': 'down'}", "'min'", "dict(mae='min')", "{1: 'min'}"])
def test_other_directions_are_refused_in_a_sentence(written: str, tmp_path: Path) -> None:
    recipe = tmp_path / "directed.py"
    recipe.write_text(f"{MINIMAL}METRIC_DIRECTIONS = {written}\n")
    assert "METRIC_DIRECTIONS" in read_recipe(recipe).problem
    assert '"min" or "max"' in read_recipe(recipe).problem


def test_the_same_content_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, parsed, parse = tmp_path / "again.py", [], ast.parse

    def count(source: str, **options: Any) -> ast.Module:
        parsed.append(source)
        return parse(source, **options)

    monkeypatch.setattr("engine.spec.recipe_file.ast.parse", count)
    recipe.write_text(MINIMAL)
    assert read_recipe(recipe) == read_recipe(recipe)
    assert len(parsed) == 1
    recipe.write_text(MINIMAL + "DEFAULTS = {'epochs': 3}\n")
    assert read_recipe(recipe).epochs == 3


def test_a_file_without_the_functions_of_a_recipe_is_a_script(folder: Path) -> None:
    info = read(folder, '"""Trains.\n\nMore."""\nimport torch\nprint(torch)')
    assert (info.framework, info.problem, info.doc) == (SCRIPT, "", "Trains.")
    assert not info.uses_calls


@pytest.mark.parametrize(
    "line",
    [
        "import traindeck; traindeck.keep(model=model)",
        "from traindeck import keep",
        "import os, sys as s, traindeck; callback = traindeck.KerasCallback()",
    ],
)
def test_a_script_with_our_calls(folder: Path, line: str) -> None:
    assert read(folder, f"def main():\n    {line}\n").uses_calls


@pytest.mark.parametrize(
    "line", ["# import traindeck", "import traindeck_other", "traindeck = 1", "import traindeck"]
)
def test_a_script_that_lets_our_calls_keep_nothing(folder: Path, line: str) -> None:
    assert not read(folder, f"{line}\n").uses_calls


@pytest.mark.parametrize("place", ["nets", "src/nets"])
def test_our_calls_in_a_package_of_the_scripts_project(folder: Path, place: str) -> None:
    script = folder / "projects" / "adder" / "train.py"
    for parent in (script.parent, folder / place):
        parent.mkdir(parents=True)
    script.write_text("from nets.trainer import Trainer")
    (folder / place / "trainer.py").write_text("from traindeck import keep")
    assert not read_script(script).uses_calls  # some other folder above it
    (folder / "pyproject.toml").touch()
    assert read_script(script).uses_calls


def test_our_calls_in_a_module_beside_the_script(folder: Path) -> None:
    (folder / "loop.py").write_text("from traindeck import keep")
    assert read(folder, "from loop import train").uses_calls


def test_a_script_may_be_of_another_python_or_have_the_functions_of_a_recipe(folder: Path) -> None:
    path = folder / "train.py"
    path.write_text("def model(): ...\nfrom traindeck import keep\nprint 'of Python 2'")
    info = read_script(path)
    assert (info.name, info.framework, info.problem) == ("train", SCRIPT, "")
    assert info.uses_calls


def test_a_program_is_not_read(folder: Path) -> None:
    path = folder / "train.sh"
    path.write_bytes(b"\xff\x00")
    assert read_script(path) == RecipeInfo(
        name="train", path=str(path), builtin=False, framework=SCRIPT
    )


def test_a_module_that_is_run_has_the_name_of_its_package(folder: Path) -> None:
    (folder / "nets").mkdir()
    (folder / "nets" / "__main__.py").write_text("")
    assert read_script(folder / "nets" / "__main__.py").name == "nets"


def test_a_missing_script_is_named(folder: Path) -> None:
    assert "There is no script" in read_script(folder / "train.py").problem


def test_a_script_that_is_not_chosen_yet_is_not_told_how_to_run() -> None:
    assert no_recipe(RecipeInfo(name="", path="", builtin=False, framework="script")) == ""


def test_a_run_that_began_with_a_mistyped_default_may_go_on(tmp_path: Path) -> None:
    recipe, copy = tmp_path / "recipe.py", tmp_path / "copy.py"
    for file in (recipe, copy):
        file.write_text(MINIMAL + "DEFAULTS = {'epochs': 3, 'learning_rte': 0.1}\n")
    assert "'learning_rte'" in read_recipe(recipe).problem
    kept = read_recipe(recipe, copy=copy)
    assert (kept.problem, kept.epochs) == ("", 3)
