"""The copy of a recipe in a run folder: written, compared, replaced, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.spec import recipe_copy
from engine.spec.recipe_copy import (
    changes,
    copy_to,
    recipe_of_run,
    replaced_copy,
    restore_copy,
    write_copy,
)
from engine.spec.recipe_file import RecipeInfo, read_recipe
from engine.spec.run_spec import RunSpec
from tests.support.recorded_runs import SPEC
from tests.support.sentences import sentence

RECIPE = "import torch, nets\ndef model(): ...\ndef datasets(): ...\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "12"
    folder.mkdir()
    return folder


@pytest.fixture
def recipe(tmp_path: Path, run: Path) -> RecipeInfo:
    """A recipe with a module, which were copied."""
    path = tmp_path / "recipes" / "mine.py"
    path.parent.mkdir()
    path.write_text(RECIPE)
    path.with_name("nets.py").write_text("x = 1\n")
    recipe = read_recipe(path)
    write_copy(run, recipe)
    return recipe


def edit(recipe: RecipeInfo, name: str = "mine.py", text: str = "# edited\n") -> None:
    path = Path(recipe.path).with_name(name)
    path.write_text(path.read_text() + text if path.exists() else text)


def files(run: Path) -> dict[str, str]:
    found = (path for path in run.rglob("*") if path.is_file())
    return {path.relative_to(run).as_posix(): path.read_text() for path in found}


COPY = {"recipe.py": RECIPE, "modules/nets.py": "x = 1\n"}


def of(recipe: RecipeInfo) -> RunSpec:
    return RunSpec(recipe=recipe.reference, strategy="torch/single", devices=("cpu:0",))


def test_a_run_has_the_recipe_of_its_start(run: Path, recipe: RecipeInfo) -> None:
    assert files(run) == COPY
    Path(recipe.path).write_text("def model(): no python")
    info = recipe_of_run(run, of(recipe))
    assert (info.path, info.file, info.problem) == (recipe.path, run / "recipe.py", "")
    assert info.owns(Path(recipe.path))


def test_the_bytes_are_those_of_the_file(run: Path, tmp_path: Path) -> None:
    """The encoding that it declares, its line ends, and its byte order mark."""
    path = tmp_path / "encoded.py"
    content = '# coding: latin-1\r\nimport torch\r\n"""\xe4"""\r\n'.encode("latin-1")
    path.write_bytes(content + b"def model(): ...\r\ndef datasets(): ...\r\n")
    recipe = read_recipe(path)
    assert recipe.problem == ""
    write_copy(run, recipe)
    assert (run / "recipe.py").read_bytes() == path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + RECIPE.encode())
    assert read_recipe(path).problem == ""


def test_a_recipe_that_is_not_built_in_any_more_is_trained_from_its_copy(run: Path) -> None:
    (run / "recipe.py").write_text(RECIPE)
    spec = RunSpec(recipe="retired", strategy="torch/single", devices=("cpu:0",))
    info = recipe_of_run(run, spec)
    assert (info.reference, info.problem, info.file) == ("retired", "", run / "recipe.py")
    (run / "recipe.py").unlink()
    assert "There is no recipe file" in recipe_of_run(run, spec).problem


def test_without_a_copy_a_run_has_the_recipe_as_it_is(run: Path, recipe: RecipeInfo) -> None:
    (run / "recipe.py").write_text("")  # lost in a power cut
    assert recipe_of_run(run, of(recipe)) == recipe


def test_nothing_has_changed(run: Path, recipe: RecipeInfo) -> None:
    assert changes(run, recipe) == ""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("mine.py", "# a\n", "mine.py: 1 line changed"),
        ("nets.py", "y = 2\nz = 3\n", "nets.py: 2 lines changed"),
        ("other.py", "", ""),
        ("mine.py", "import other\n", "mine.py: 1 line changed, other.py: new"),
    ],
)
def test_what_has_changed_is_said_by_file(
    run: Path, recipe: RecipeInfo, name: str, text: str, expected: str
) -> None:
    edit(recipe, "other.py", "z = 1")
    edit(recipe, name, text)
    assert changes(run, recipe) == expected


def test_other_changes(run: Path, recipe: RecipeInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(recipe.path)
    path.write_bytes(RECIPE.replace("\n", "\r\n").encode())
    assert changes(run, recipe) == sentence("line-ends-changed")
    path.write_text(RECIPE.replace(", nets", ""))
    assert changes(run, recipe) == sentence("line-changed-no-longer-imported")
    path.write_text("(" * 3)
    assert changes(run, recipe) == sentence("lines-changed-no-longer-imported")
    monkeypatch.setattr(recipe_copy, "_MOST_COMPARED_LINES", 2)
    assert "mine.py: changed, " in changes(run, recipe)
    path.write_text(RECIPE + "import a, b, c, d, e, f\n")
    for name in "abcdef":
        edit(recipe, f"{name}.py", "")
    assert changes(run, recipe).endswith(sentence("new-new-new-more-files"))
    path.unlink()
    assert changes(run, recipe) == "", "there is nothing to choose"


def test_an_older_copy_has_no_modules_and_they_are_not_compared(
    run: Path, recipe: RecipeInfo
) -> None:
    (run / "modules" / "nets.py").unlink()
    edit(recipe, "nets.py")
    assert changes(run, recipe) == ""


def test_a_copy_is_replaced_and_the_old_one_kept(run: Path, recipe: RecipeInfo) -> None:
    edit(recipe, text="import other\n")
    edit(recipe, "other.py", "z = 1")
    edit(recipe, "nets.py")
    with replaced_copy(run, recipe, 2):
        pass
    now = {
        "recipe.py": f"{RECIPE}import other\n",
        "modules/nets.py": "x = 1\n# edited\n",
        "modules/other.py": "z = 1",
    }
    before = {"recipe.before-2.py": RECIPE, "modules.before-2/nets.py": "x = 1\n"}
    assert files(run) == now | before
    assert changes(run, recipe) == ""
    assert restore_copy(run, 2)
    assert files(run) == COPY
    assert not restore_copy(run, 2)


def test_modules_come_and_go(run: Path, recipe: RecipeInfo) -> None:
    path = Path(recipe.path)
    path.write_text(RECIPE.replace(", nets", ""))
    with replaced_copy(run, recipe, 2):
        pass
    assert "modules/nets.py" not in files(run)
    path.write_text(RECIPE)
    with replaced_copy(run, recipe, 3):
        pass
    assert files(run)["modules/nets.py"] == "x = 1\n"
    assert restore_copy(run, 3)
    assert "modules/nets.py" not in files(run)


@pytest.mark.parametrize("killed_in", ["_replace_folder", "write_atomically", ""])
def test_what_does_not_start_leaves_the_copy_as_it_was(
    run: Path, recipe: RecipeInfo, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    """Whether something fails after the old copy was kept, or the supervisor does not start."""
    edit(recipe)
    edit(recipe, "nets.py")
    calls = []
    if killed_in:
        real = getattr(recipe_copy, killed_in)

        def fail(*given: object, **options: object) -> None:
            calls.append(given)
            if len(calls) == 2:
                raise OSError(28, "No space left on device")
            real(*given, **options)

        monkeypatch.setattr(recipe_copy, killed_in, fail)
    with pytest.raises(OSError, match="No space"), replaced_copy(run, recipe, 2):
        raise OSError(28, "No space left on device")
    assert files(run) == COPY


def test_a_new_run_gets_the_copies_of_its_attempts(
    run: Path, recipe: RecipeInfo, tmp_path: Path
) -> None:
    for attempt in (2, 3, 4):
        edit(recipe, text=f"# {attempt}\n")
        with replaced_copy(run, recipe, attempt):
            pass
    new = tmp_path / "13"
    new.mkdir()
    copy_to(run, new, 2)
    copied = files(new)
    assert copied["recipe.py"].endswith("# 4\n")
    assert copied["recipe.before-2.py"] == RECIPE
    assert copied["recipe.before-3.py"].endswith("# 2\n"), "the one of attempt 2"
    assert {"modules/nets.py", "modules.before-2/nets.py", "modules.before-3/nets.py"} < {*copied}
    assert not any("before-4" in name for name in copied)


def test_a_built_in_recipe_has_no_modules(run: Path) -> None:
    from engine.spec import catalog

    write_copy(run, catalog.recipe("digits"))
    assert [*files(run)] == ["recipe.py"]
    assert recipe_of_run(run, SPEC).builtin
