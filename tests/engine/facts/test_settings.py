"""What differs from the defaults and from another run; what a script was called with."""

from __future__ import annotations

from pathlib import Path

from engine.facts.settings import HIDDEN, Described, SettingRow, setting_rows, setting_text
from engine.spec import catalog
from engine.spec.run_spec import FIELDS, RunSpec

RECIPE = catalog.recipe("digits")


def spec(**changes: object) -> RunSpec:
    known: dict[str, object] = {
        "recipe": "digits",
        "strategy": "torch/ddp",
        "devices": ("GPU-1",),
        "epochs": RECIPE.epochs,
        "batch_size": RECIPE.batch_size,
        "learning_rate": RECIPE.learning_rate,
        "steps": RECIPE.steps,
    }
    return RunSpec(**(known | changes))  # type: ignore[arg-type]


def rows(run: Described, other: Described | None = None) -> dict[str, SettingRow]:
    return {row.name: row for row in setting_rows(run, other)}


def test_every_setting_of_the_spec_and_of_the_recipe_is_there() -> None:
    found = rows(Described(spec(), RECIPE))
    assert set(FIELDS) <= set(found)
    assert {f"settings.{field.name}" for field in RECIPE.fields} <= set(found)
    assert [row.name for row in found.values() if row.differs] == []
    assert found["epochs"].default == str(RECIPE.epochs)  # not that of the field


def test_what_was_chosen_differs_from_its_default() -> None:
    name = RECIPE.fields[0].name
    run = spec(seed=17, precision="bf16", compile=True, settings={name: 5})
    found = rows(Described(run, RECIPE))
    differing = {row.name for row in found.values() if row.differs_from_default}
    assert differing == {"seed", "precision", "compile", f"settings.{name}"}
    assert (found["compile"].value, found["compile"].default) == ("on", "off")
    assert not any(row.differs_from_other for row in found.values())


def test_what_was_changed_since_the_other_run() -> None:
    first = RECIPE.fields[0].name
    other = Described(spec(seed=1, settings={first: 3, "gone": 2}), RECIPE)
    found = rows(Described(spec(strategy="torch/fsdp", settings={first: 4}), RECIPE), other)
    changed = {row.name: row.was for row in found.values() if row.differs_from_other}
    assert changed == {
        "strategy": "torch/ddp",
        "seed": "1",
        f"settings.{first}": "3",
        "settings.gone": "2",
    }
    assert found["settings.gone"].value == ""


def test_devices_have_the_names_that_a_person_knows() -> None:
    found = rows(Described(spec(), RECIPE, {"GPU-1": "GPU 0"}))
    assert found["devices"].value == "GPU 0"


def test_a_run_whose_recipe_is_gone() -> None:
    found = rows(Described(spec(settings={"width": 3}), None))
    assert found["settings.width"].value == "3"
    assert found["recipe"].value == "digits"


def test_the_options_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--lr', type=float, default=0.1)\n"
        "p.add_argument('--width', type=int, default=8)\np.parse_args()\n"
    )
    command = ("train.py", "--lr", "0.5", "--other=1", "--api-key", "hidden-key", "--fast")
    run = spec(
        recipe=str(script),
        strategy="script/single",
        command=command,
        variables={"A": "1"},
        secret_variables=("TOKEN",),
    )
    found = rows(Described(run))
    assert found["option lr"].value == "0.5"
    assert found["option lr"].differs
    assert (found["option width"].value, found["option width"].differs) == ("8", False)
    assert found["option --other"].value == "1"
    assert found["option --api-key"].value == "***"
    assert found["option --fast"].value == "on"
    assert found["variable A"].value == "1"
    assert found["variable TOKEN"].value == HIDDEN
    assert "learning_rate" not in found  # the script decides


def test_values_in_words() -> None:
    assert setting_text(3e-4) == "0.0003"
    assert setting_text(0, FIELDS["steps"]) == FIELDS["steps"].zero
    assert setting_text("bf16", FIELDS["precision"]) == FIELDS["precision"].choice_text("bf16")
    assert setting_text(("a", "b")) == "a, b"
