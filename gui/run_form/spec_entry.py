"""Reads a spec from the fields of the form, and disables the values that are not allowed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.strategy import Strategy
from engine.spec.validation import Problem
from gui.run_form.form_layout import entered_values
from gui.run_form.form_mode import FormMode
from gui.widgets.entry_fields import Field


def entered_spec(
    fields: Mapping[str, Field],
    settings: Mapping[str, Field],
    recipe: RecipeInfo,
    strategy: Strategy,
    devices: tuple[str, ...],
    name: str,
) -> tuple[RunSpec, list[Problem]]:
    """Return the spec and the problems of fields with invalid values, which have their defaults."""
    found: list[Problem] = []
    own = entered_values(settings, "settings.", found)
    spec = RunSpec(
        recipe=recipe.reference,
        strategy=strategy.name,
        devices=devices,
        name=name,
        settings={
            info.name: own[info.name]
            for info in recipe.fields
            if own.get(info.name, info.default) != info.default
        },
        **entered_values(fields, "", found),  # type: ignore[arg-type]  # each value has the type of its field
    )
    return spec, found


def apply_refusals(
    fields: Mapping[str, Field],
    strategy: Strategy,
    mode: FormMode,
    spec: RunSpec,
    recipe: RecipeInfo,
) -> None:
    """Disable the values that `mode` or `strategy` refuses; `spec` holds the values in the form.

    A strategy may refuse a value because of the fields before it.
    """
    for name, field in fields.items():
        info = FIELDS[name]
        spec = replace(spec, **{name: info.default})
        if fixed := mode.fixed_value(name):
            field.set_refusal(fixed.reason, fixed.value)
        elif name == "epochs" and spec.steps and not recipe.is_script:
            text = f"Max steps decides: the training ends after {spec.steps:,} steps."
            field.set_refusal(text, field.value_or_default())
        else:
            refusal = strategy.refusal(name, spec) or strategy.script_refusal(name, recipe)
            field.set_refusal(refusal)
        if info.choices and not field.refusal:
            others = {choice: replace(spec, **{name: choice}) for choice in info.choices}
            field.set_choice_refusals(
                {choice: strategy.refusal(name, other) for choice, other in others.items()}
            )
        spec = replace(spec, **{name: field.value_or_default()})
