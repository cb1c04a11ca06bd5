"""The spec in a run folder, and the environment of the start."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.spec import catalog, presets
from engine.spec.recipe_copy import recipe_of_run
from engine.spec.recipe_file import RecipeInfo, read_recipe, read_script
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import FILE_NAME, UnreadableSpec, read_spec, replaced_spec, write_spec

SPEC = RunSpec(
    recipe="/somewhere/mine.py",
    strategy="torch/ddp",
    devices=("cpu:0", "cpu:1"),
    batch_size=33,
    epochs=7,
    learning_rate=1.0,
    seed=5,
    settings={"flag": True, "count": 3, "rate": 2.0, "word": 'with "quotes" and ümlaut'},
    name="My run",
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "12"
    folder.mkdir()
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> RecipeInfo:
    path = tmp_path / "recipes" / "mine.py"
    path.parent.mkdir()
    path.write_text("import torch\ndef model(): ...\ndef datasets(): ...\n")
    return read_recipe(path)


def environment(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((run / FILE_NAME).read_text("utf-8"))["environment"]
    return found


def test_a_spec_comes_back_as_it_was_down_to_the_types(run: Path, recipe: RecipeInfo) -> None:
    write_spec(run, SPEC, recipe)
    assert repr(read_spec(run)) == repr(SPEC)


def test_the_recipe_is_kept_as_it_was(run: Path, recipe: RecipeInfo) -> None:
    write_spec(run, SPEC, recipe)
    Path(recipe.path).write_text("changed later")
    assert (run / "recipe.py").read_text().startswith("import torch")


def test_the_versions_of_what_computes_are_noted(run: Path, recipe: RecipeInfo) -> None:
    write_spec(run, SPEC, recipe)
    assert environment(run)["recipe_path"] == recipe.path
    assert set(environment(run)["packages"]) >= {"torch", "numpy"}


def test_outside_of_git_no_commit_is_noted(
    run: Path, recipe: RecipeInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(Path(recipe.path).parent.parent))
    write_spec(run, SPEC, recipe)
    assert "recipe_commit" not in environment(run)


def test_inside_git_the_commit_is_noted_and_whether_the_recipe_was_changed(
    run: Path, recipe: RecipeInfo
) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
        command = ["git", *who, *arguments]
        result = subprocess.run(
            command, cwd=Path(recipe.path).parent, check=True, capture_output=True, text=True
        )
        return result.stdout.strip()

    git("init", "-q")
    git("add", "mine.py")
    git("commit", "-q", "-m", "A recipe")
    monitor = run / "monitor.sh"
    monitor.write_text(f"#!/bin/sh\ntouch {run}/has-run\n")
    monitor.chmod(0o700)
    git("config", "core.fsmonitor", str(monitor))
    write_spec(run, SPEC, recipe)
    assert not (run / "has-run").exists(), "no program of the repository runs"
    assert environment(run)["recipe_commit"] == git("rev-parse", "HEAD")
    assert environment(run)["recipe_changed_since_commit"] is False
    Path(recipe.path).write_text("import torch  # changed\n")
    write_spec(run, SPEC, recipe)
    assert environment(run)["recipe_changed_since_commit"] is True


@pytest.mark.parametrize(("old", "today"), [("true", "stop"), ("false", "continue")])
def test_a_spec_from_before_on_nan_can_still_be_read(old: str, today: str, run: Path) -> None:
    text = f"[run]\nrecipe = 'r'\nstrategy = 's'\ndevices = ['cpu:0']\nstop_on_nan = {old}\n"
    text += "[environment]\n"
    (run / FILE_NAME).write_text(text)
    assert read_spec(run).on_nan == today


@pytest.mark.parametrize("weights", ["", "initial-weights.npz", "/runs/3/initial-weights.npz"])
def test_a_spec_that_names_the_weights_of_a_twin_run_can_still_be_read(
    weights: str, run: Path, recipe: RecipeInfo
) -> None:
    write_spec(run, SPEC, recipe)
    file = run / FILE_NAME
    file.write_text(file.read_text().replace("[run]\n", f"[run]\ninitial_weights = '{weights}'\n"))
    assert read_spec(run) == SPEC
    assert presets.read(file) == SPEC


@pytest.mark.parametrize("precision", ["default", "fp32"])
def test_an_older_version_computes_in_fp32_what_has_the_default_precision(
    precision: Any, run: Path, recipe: RecipeInfo
) -> None:
    """It does not know the value, and could not read the run."""
    write_spec(run, replace(SPEC, precision=precision), recipe)
    assert read_spec(run).precision == precision
    stored = tomllib.loads((run / FILE_NAME).read_text())["run"]
    assert stored.get("precision", "fp32") == "fp32"


@pytest.mark.parametrize(
    ("more", "precision"),
    [("", "fp32"), ("command = ['train.py']", "default"), ("imported_from = 'x'", "default")],
)
def test_the_precision_of_before_stays_exact_and_a_script_has_none(
    more: str, precision: str, run: Path
) -> None:
    text = "[run]\nrecipe = 'r'\nstrategy = 's'\ndevices = ['cpu:0']\nprecision = 'fp32'\n"
    (run / FILE_NAME).write_text(f"{text}{more}\n[environment]\n")
    assert read_spec(run).precision == precision


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "no toml",
        "[run]\nrecipe = 'r'",
        "[run]\nrecipe = 'r'\nstrategy = 's'\ndevices = 'cpu:0'",
        "[run]\nrecipe = 'r'\nstrategy = 's'\ndevices = ['cpu:0']\nunknown = 1\n[environment]",
        "[run]\nrecipe = 'r'\nstrategy = 's'\ndevices = ['cpu:0']",
    ],
)
def test_a_missing_or_damaged_spec_is_reported_in_a_sentence(text: str | None, run: Path) -> None:
    if text is not None:
        (run / FILE_NAME).write_text(text)
    with pytest.raises(UnreadableSpec, match=r"The settings of 12 cannot be read: .+\."):
        read_spec(run)


def test_the_settings_of_a_script_come_back_without_the_values_of_secrets(
    run: Path, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    spec = replace(
        SPEC,
        recipe=str(script),
        strategy="script/torchrun",
        settings={},
        command=("train.py", "--lr", "0.1", "naïve \\ 'quoted'", "--db=redis://:hush@host/0"),
        working_folder=str(tmp_path),
        variables={"A": "1", "OMP_NUM_THREADS": "2", "HF_TOKEN": "hush", "PLACE": "hush"},
        stored_variables=("A",),
        secret_variables=("OTHER_KEY",),
        interpreter="/opt/python",
        resume_arguments="--resume {latest} --password hush",
        output_figures=False,
    )
    write_spec(run, spec, catalog.recipe_of(spec))
    places = ("ARGUMENT_PASSWORD", "ARGUMENT_PASSWORD_2")
    stored = replace(
        spec,
        variables={"A": "1", "OMP_NUM_THREADS": "2"},
        secret_variables=("OTHER_KEY", "HF_TOKEN", "PLACE", *places),
        command=(*spec.command[:-1], f"--db=redis://:${{{places[0]}}}@host/0"),
        resume_arguments=f"--resume {{latest}} --password ${{{places[1]}}}",
    )
    assert read_spec(run) == stored
    with replaced_spec(run, replace(spec, name="other"), 2):
        pass
    presets.write(tmp_path / "preset.toml", spec)
    assert presets.read(tmp_path / "preset.toml") == stored
    texts = [path.read_bytes() for path in tmp_path.rglob("*.toml")]
    assert len(texts) == 3
    assert not any(b"hush" in text for text in texts)
    assert (run / "recipe.py").read_text() == "print(1)"


def test_a_program_is_not_copied(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text("echo")
    program = read_script(path)
    write_spec(run, replace(SPEC, recipe=str(path), command=("./train.sh",)), program)
    assert not (run / "recipe.py").exists()
    assert recipe_of_run(run, read_spec(run)) == program
